package chaos

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// make mutations takes long and runs seldom; that it still can is looked at each time.
func TestEveryMutationStillApplies(t *testing.T) {
	patches, err := filepath.Glob("mutations/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no mutations: %v", err)
	}
	for _, path := range patches {
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--check", filepath.Join("chaos", path))
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: say anew how to break what it breaks: %v: %s", path, err, out)
		}
	}
}
