//go:build !failpoint

package failpoint

// On says whether this process is to be killed at a mark: never without the tag failpoint.
func On() bool { return false }

// Hit does nothing: the program was built without the tag failpoint.
func Hit(string) {}
