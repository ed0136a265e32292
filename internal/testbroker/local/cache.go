package local

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const (
	// release is the Debian release whose RabbitMQ is the newest we test.
	release = "forky"
	// readyFile marks an unpacked release as whole.
	readyFile = ".stepwell-ready"
)

//go:embed pom.xml
var poms embed.FS

// CacheDir is where brokers are kept from one run to the next.
func CacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil { // no home folder: the cache lives as long as the machine's temporary files
		base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-of-%d", os.Geteuid()))
	}
	return filepath.Join(base, "stepwell-test")
}

func releaseRoot() string { return filepath.Join(CacheDir(), "rabbitmq-"+release) }

func kafkaLibs() string { return filepath.Join(CacheDir(), "kafka-"+KafkaVersion) }

// CanFetchRabbit says whether we may unpack another system and run in it.
func CanFetchRabbit() bool { return runtime.GOOS == "linux" && os.Geteuid() == 0 }

// HaveFetchedRabbit says whether the newest RabbitMQ is in the cache.
func HaveFetchedRabbit() bool { return exists(filepath.Join(releaseRoot(), readyFile)) }

// FetchRabbit unpacks the newest RabbitMQ into the cache, once. It needs root,
// debootstrap and a mirror of Debian.
func FetchRabbit(ctx context.Context) error {
	return once(releaseRoot(), func(part string) error {
		script := "/usr/share/debootstrap/scripts/" + release
		if !exists(script) { // a release that debootstrap is too old to know
			if err := os.Symlink("sid", script); err != nil {
				return fmt.Errorf("teach debootstrap the release %s: %w", release, err)
			}
		}
		// In a mount namespace of its own it leaves no mount behind, even when killed.
		if err := command(ctx, "unshare", "--mount", "debootstrap", "--variant=minbase", "--include=rabbitmq-server", release, part); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(part, readyFile), nil, 0o600)
	})
}

// FetchKafka copies Kafka's jars into the cache, once. It needs Maven.
func FetchKafka(ctx context.Context) error {
	return once(kafkaLibs(), func(part string) error {
		pom, err := poms.ReadFile("pom.xml")
		if err != nil {
			return err
		}
		file := part + ".pom.xml"
		if err := os.WriteFile(file, pom, 0o600); err != nil {
			return err
		}
		err = command(ctx, "mvn", "-B", "-q", "-f", file, "-Dkafka="+KafkaVersion,
			"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+part)
		return errors.Join(err, os.Remove(file))
	})
}

// once makes the folder dir by calling fill with a name beside it, and does
// nothing where it is there already. Of two processes one fills, the other waits.
func once(dir string, fill func(part string) error) error {
	if exists(dir) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the cache: %w", err)
	}
	defer func() { _ = lock.Close() }() // gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the cache: %w", err)
	}
	// Another process filled it while this one waited for the lock.
	if exists(dir) {
		return nil
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("clear what an earlier try left: %w", err)
	}
	if err := fill(part); err != nil {
		return fmt.Errorf("fill %s: %w", dir, err)
	}
	// The name appears only once everything is there: a run that is killed leaves no half cache.
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("fill %s: %w", dir, err)
	}
	return nil
}

// command runs a program to its end; an error has the end of its output.
func command(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = childAttr()
	out, err := cmd.CombinedOutput()
	if err != nil {
		const most = 2000
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out[max(0, len(out)-most):])
	}
	return nil
}
