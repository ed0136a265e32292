//go:build !failpoint

package failpoint

// On says whether marks do anything.
const On = false

// Hit does nothing: the program was built without the tag failpoint.
func Hit(string) {}
