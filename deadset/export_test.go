package deadset

// View is view, for the fuzz test.
var View = view
