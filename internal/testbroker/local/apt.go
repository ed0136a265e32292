package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// ErrRoot says that something can be installed, but only by root.
var ErrRoot = errors.New("only root can install it")

// aptInstall installs packages without starting the services they bring, which
// the packages' scripts ask policy-rc.d about.
const aptInstall = `policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "$@"`

// MissingPackages are those of Debian and Ubuntu without which the brokers
// cannot be had here, by the name of the broker that needs them.
func MissingPackages() (rabbit, kafka []string) {
	if _, ok := systemDist(); !ok {
		rabbit = append(rabbit, "rabbitmq-server")
	}
	if CanFetchRabbit() && !HaveFetchedRabbit() && !have("debootstrap") {
		rabbit = append(rabbit, "debootstrap", "debian-archive-keyring")
	}
	if !have("java") {
		kafka = append(kafka, "default-jre-headless")
	}
	if !exists(kafkaLibs()) && !have("mvn") {
		kafka = append(kafka, "maven")
	}
	return rabbit, kafka
}

// Installable says why packages cannot be installed here: nil for root with
// apt-get, and for who may ask sudo.
func Installable(sudo bool) error {
	switch {
	case !have("apt-get"):
		return fmt.Errorf("no apt-get here: %w", ErrMissing)
	case os.Geteuid() != 0 && (!sudo || !have("sudo")):
		return ErrRoot
	default:
		return nil
	}
}

// Install installs packages with the system's package manager; who is not
// root is asked for a password by sudo. Call Installable first.
func Install(ctx context.Context, packages []string) error {
	argv := append([]string{"sh", "-euc", aptInstall, "sh"}, packages...)
	if os.Geteuid() == 0 {
		return command(ctx, argv...)
	}
	argv = append([]string{"sudo"}, argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // in our session, whose terminal sudo asks on
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install %v: %w", packages, err)
	}
	return nil
}

// have says whether a program is in PATH.
func have(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
