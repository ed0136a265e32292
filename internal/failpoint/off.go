//go:build !failpoint

package failpoint

// Hit does nothing: the program was built without the tag failpoint.
func Hit(string) {}
