package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

// edits runs the command on the message that the actor of the tests has. Its value is "\x00whole".
func edits(t *testing.T, address string, ask asker, flags ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), append([]string{"dead-set", "edit", "-s", "orders", "orders/v1:0:7", "--address", address}, flags...), ask, &o, &e)
	return o.String(), e.String(), code
}

// file has the text.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnEditOpensTheEditorShowsTheDifferenceAndAsks(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", file(t, "#!/bin/sh\nprintf 'new\\n\\033line\\n' > \"$1\"\n"))
	shown, asked := "", ""
	out, errs, code := edits(t, address, func(question string) error { asked = question; return nil }, "--note", "mended")
	shown = errs
	if code != exitOK || len(dead.edited) != 1 || dead.edited[0] != "new\n\x1bline" {
		t.Fatalf("exit %d, %q, %q, edited %q", code, out, errs, dead.edited)
	}
	if !strings.Contains(shown, "-  whole\n+ new\n+  line\n9 bytes, 6 before") || !strings.HasPrefix(asked, "Have this copy of orders/v1:0:7 handled") || strings.Contains(shown, "\x1b") {
		t.Errorf("shown %q, asked %q", shown, asked)
	}
	if !strings.Contains(out, "edited orders/v1:0:7 of orders") || !strings.Contains(out, "stepwell --address "+address+" dead-set undo op_") {
		t.Errorf("it says %q", out)
	}
}

func TestWithoutAYesAChangeOrATerminalNothingIsEdited(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	t.Setenv("VISUAL", "")
	yes, no := func(string) error { return nil }, func(string) error { return errNo }
	for name, test := range map[string]struct {
		editor string
		ask    asker
		flags  []string
		code   int
		says   string
	}{
		"nobody is there":              {"true", nil, nil, exitUsage, "--value FILE"},
		"nobody is there, with a file": {"true", nil, []string{"--value", file(t, "x")}, exitUsage, "nothing was done"},
		"no":                           {"true", no, []string{"--value", file(t, "x")}, exitFailed, "nothing was done"},
		"yes without a file":           {"true", yes, []string{"--yes"}, exitUsage, "--yes needs --value"},
		"a file that is not there":     {"true", yes, []string{"--value", "/none"}, exitUsage, "/none"},
		"nothing was changed":          {"true", yes, nil, exitFailed, "the value is what it was"},
		"the editor fails":             {"false", yes, nil, exitFailed, "the editor"},
		"there is no editor":           {"", yes, nil, exitFailed, "VISUAL nor EDITOR"},
		"a message that is not there":  {"true", yes, []string{"--channel", "none"}, exitFailed, "no channel"},
		"an empty note":                {"true", yes, []string{"--note="}, exitUsage, "note"},
	} {
		t.Setenv("EDITOR", test.editor)
		out, errs, code := edits(t, address, test.ask, test.flags...)
		if code != test.code || !strings.Contains(errs, test.says) || out != "" || len(dead.edited) > 0 {
			t.Errorf("%s: exit %d, %q, %q, edited %q", name, code, out, errs, dead.edited)
		}
	}
}

func TestWhoEditsAMessageOfAPausedStreamIsToldBeforeTheEditorOpens(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", file(t, "#!/bin/sh\nprintf new > \"$1\"\n"))
	if _, errs, code := command(t, address, "pause", "orders"); code != exitOK {
		t.Fatal(errs)
	}
	_, errs, code := edits(t, address, func(string) error { return nil })
	if note, rest, _ := strings.Cut(errs, "\n"); code != exitOK || len(dead.edited) != 1 || !strings.Contains(note, "orders is paused here") || strings.Contains(rest, "is paused") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// Who has written a value for nothing is angry.
func TestWhereNothingIsEditedTheCommandSaysSoBeforeAnybodyWritesOrIsAsked(t *testing.T) {
	address, dead := serve(t, "") // nothing is kept, so nothing is edited
	opened := filepath.Join(t.TempDir(), "opened")
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", file(t, "#!/bin/sh\ntouch "+opened+"\nprintf new > \"$1\"\n"))
	asked := false
	for name, flags := range map[string][]string{"in an editor": nil, "with a file": {"--value", file(t, "x")}} {
		out, errs, code := edits(t, address, func(string) error { asked = true; return nil }, flags...)
		if code != exitFailed || !strings.Contains(errs, "messages are not edited here") || out != "" || len(dead.edited) > 0 {
			t.Errorf("%s: exit %d, %q, %q, edited %q", name, code, out, errs, dead.edited)
		}
	}
	if _, err := os.Stat(opened); err == nil || asked {
		t.Errorf("the editor was opened (%v), or somebody was asked (%t)", err, asked)
	}
}

// Done again it would send another copy.
func TestAnEditThatMayBeHalfDoneIsNoneToTryAgain(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	for of, want := range map[error]int{server.ErrHalfEdited: exitLook, server.ErrUnavailable: exitAgain, server.ErrBusy: exitAgain, server.ErrNotFound: exitFailed} {
		dead.editErr = of
		if _, errs, code := edits(t, address, nil, "--value", file(t, "x"), "--yes"); code != want {
			t.Errorf("%v: exit %d, %q", of, code, errs)
		}
	}
}

func TestTheUndoOfAnEditSaysWhatItDoesNotTakeBack(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	dead.pile.set(1, false)
	out, errs, code := edits(t, address, nil, "--value", file(t, "x"), "--yes")
	_, id, _ := strings.Cut(out, " dead-set undo ")
	id, _, _ = strings.Cut(id, " ")
	if code != exitOK || id == "" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	if _, errs, code := command(t, address, "dead-set", "undo", id, "--yes"); code != exitOK || !strings.Contains(errs, "the edited copy was sent") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestWhatSomebodyWroteIsKeptWhereTheEditGoesWrong(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", file(t, "#!/bin/sh\nprintf 'new\\n' > \"$1\"\n"))
	for of, want := range map[error]int{nil: 0, server.ErrUnavailable: 1} {
		dead.editErr = of
		_, errs, _ := edits(t, address, func(string) error { return nil })
		kept, err := filepath.Glob(filepath.Join(os.TempDir(), "stepwell-edit-*", "value"))
		if err != nil || len(kept) != want {
			t.Fatalf("%v: kept %v, %v, %q", of, kept, err, errs)
		}
		for _, path := range kept {
			wrote, err := os.ReadFile(path)
			if err != nil || string(wrote) != "new" || !strings.Contains(errs, path) || os.RemoveAll(filepath.Dir(path)) != nil {
				t.Errorf("kept %q, %v, it says %q", wrote, err, errs)
			}
		}
	}
	dead.editErr = nil
	edits(t, address, func(string) error { return errNo })
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("after a no: %v, %v", left, err)
	}
}

func TestAFileIsTheNewValueAsItIs(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	out, errs, code := edits(t, address, nil, "--value", file(t, "\xff\n"), "--yes", "--json")
	if code != exitOK || len(dead.edited) != 1 || dead.edited[0] != "\xff\n" || !strings.Contains(out, `"edited_id":"orders/v1:0:7~op_`) {
		t.Errorf("exit %d, %q, %q, edited %q", code, out, errs, dead.edited)
	}
}
