package local

import "syscall"

// childAttr gives a child a session of its own, so that Ctrl-C reaches only
// the parent, which then stops its children in order. A parent that is killed
// takes them along.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
