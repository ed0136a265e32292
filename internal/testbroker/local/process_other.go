//go:build !linux

package local

import "syscall"

// childAttr gives a child a session of its own, so that Ctrl-C reaches only
// the parent, which then stops its children in order.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
