package chaos

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stepwell/stepwell/chaos/ledger"
)

// keep appends the summary to the file of results, where one is named.
func keep(t *testing.T, s ledger.Summary) {
	t.Helper()
	path := os.Getenv(resultsVariable)
	if path == "" {
		return
	}
	line, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // the write tells
	if _, err := file.Write(append(line, '\n')); err != nil {
		t.Error(err)
	}
}
