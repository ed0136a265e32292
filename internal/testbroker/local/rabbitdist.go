package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RabbitDist is a RabbitMQ that is installed somewhere on this machine.
type RabbitDist struct {
	Version string
	Root    string // root folder of the system it belongs to; empty: this one
	bin     string // folder of its scripts, within that system
	home    string // folder of its applications, within that system
}

// debianBin is where Debian and Ubuntu keep the scripts.
const debianBin = "/usr/lib/rabbitmq/bin"

// ErrMissing says that a broker is not installed here.
var ErrMissing = errors.New("not installed")

// mount is where a node of another root finds its folder. It is bound there
// in a mount namespace of the node's own, so all nodes can use the same place
// and nothing is left mounted when they are gone.
const mount = "/mnt"

// Oldest is the RabbitMQ of the system's package; where there is none, the
// one in the cache.
func Oldest() (RabbitDist, error) {
	if d, ok := systemDist(); ok {
		return d, nil
	}
	if d, ok := cachedDist(); ok {
		return d, nil
	}
	return RabbitDist{}, ErrMissing
}

// Newest is the RabbitMQ in the cache; without one, or for a user that may
// not change its root, it is the system's.
func Newest() (RabbitDist, error) {
	if d, ok := cachedDist(); ok {
		return d, nil
	}
	if d, ok := systemDist(); ok {
		return d, nil
	}
	return RabbitDist{}, ErrMissing
}

func systemDist() (RabbitDist, bool) {
	for _, bin := range []string{debianBin, "/opt/homebrew/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin"} {
		if d, ok := distAt("", bin); ok {
			return d, true
		}
	}
	return RabbitDist{}, false
}

// cachedDist is the RabbitMQ of FetchRabbit, for who may change the root that it needs.
func cachedDist() (RabbitDist, bool) {
	if !CanFetchRabbit() || !HaveFetchedRabbit() {
		return RabbitDist{}, false
	}
	return distAt(releaseRoot(), debianBin)
}

// distAt finds an installation by its scripts, and reads its version from the name of a folder: to
// ask the node would take seconds.
func distAt(root, bin string) (RabbitDist, bool) {
	if !exists(filepath.Join(root, bin, "rabbitmq-server")) {
		return RabbitDist{}, false
	}
	d := RabbitDist{Root: root, bin: bin}
	for _, home := range []string{"../lib/rabbitmq_server-*", ".."} {
		found, err := filepath.Glob(filepath.Join(root, bin, home, "plugins", "rabbit-*"))
		if err == nil && len(found) > 0 {
			_, d.Version, _ = strings.Cut(filepath.Base(found[0]), "-")
			d.home = strings.TrimPrefix(filepath.Dir(filepath.Dir(found[0])), root)
			return d, true
		}
	}
	return d, false
}

// inside is what the node calls its folder dir.
func (d RabbitDist) inside(dir string) string {
	if d.Root == "" {
		return dir
	}
	return mount
}

func (d RabbitDist) path() string {
	own := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if d.Root == "" {
		return d.bin + ":" + own + ":" + os.Getenv("PATH") // Erlang may be anywhere
	}
	return own
}

// enterRoot binds what a node needs into another root and becomes the node:
// without hosts it finds no localhost and dies unheard. A root has a file to
// bind it to or not, depending on the day it was unpacked.
const enterRoot = `root=$1 dir=$2; shift 2
mount --bind /proc "$root/proc"; mount --bind /dev "$root/dev"
: >> "$root/etc/hosts"; mount --bind /etc/hosts "$root/etc/hosts"; mount --bind "$dir" "$root` + mount + `"
exec chroot "$root" "$@"`

// command runs a program of the distribution for the node in dir, with env as
// its whole environment.
func (d RabbitDist) command(ctx context.Context, dir string, env []string, program string, args ...string) *exec.Cmd {
	argv := append([]string{program}, args...)
	if d.Root != "" {
		argv = append([]string{"unshare", "--mount", "sh", "-euc", enterRoot, "sh", d.Root, dir}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
