// Package failpoint marks the moments at which the death of the process is most likely to lose a
// message. A program built with the tag failpoint can be made to kill itself at one of them;
// without the tag a mark is an empty function that the compiler removes.
package failpoint

// Variable names the mark at which to die, and at which of its hits, counted from one:
// "published:3".
const Variable = "STEPWELL_FAILPOINT"
