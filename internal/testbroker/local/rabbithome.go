package local

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// setUpHome makes a home for RabbitMQ in the node's folder, which has the applications that a node
// without plugins needs. In the home that is installed Erlang looks for each module in the folders
// of all plugins before it finds it, which is half of the processor time of a start.
func (r *Rabbit) setUpHome() error {
	installed, home := filepath.Join(r.dist.Root, r.dist.home), filepath.Join(r.dir, "home")
	if err := os.CopyFS(filepath.Join(home, "sbin"), os.DirFS(filepath.Join(installed, "sbin"))); err != nil {
		return fmt.Errorf("copy RabbitMQ's scripts: %w", err)
	}
	if err := os.Mkdir(filepath.Join(home, "plugins"), 0o700); err != nil {
		return fmt.Errorf("link RabbitMQ's applications: %w", err)
	}
	links := []string{"escript"} // of rabbitmqctl
	apps := map[string]string{}
	if err := addApp(filepath.Join(installed, "plugins"), "rabbit", apps); err != nil {
		return err
	}
	for _, folder := range apps {
		links = append(links, filepath.Join("plugins", folder))
	}
	for _, name := range links {
		if err := os.Symlink(filepath.Join(r.dist.home, name), filepath.Join(home, name)); err != nil {
			return fmt.Errorf("link RabbitMQ's applications: %w", err)
		}
	}
	return nil
}

// needs finds the applications that an application's resource file says it needs.
var needs = regexp.MustCompile(`\{applications,\s*\[([^\]]*)\]`)

// addApp adds an application and those that it needs, each with its folder among the plugins. What
// has none is a part of Erlang.
func addApp(plugins, app string, to map[string]string) error {
	found, err := filepath.Glob(filepath.Join(plugins, app+"-*", "ebin", app+".app"))
	if err != nil || len(found) == 0 || to[app] != "" {
		return err
	}
	to[app] = filepath.Base(filepath.Dir(filepath.Dir(found[0])))
	text, err := os.ReadFile(found[0])
	if err != nil {
		return fmt.Errorf("what RabbitMQ needs: %w", err)
	}
	list := needs.FindSubmatch(text)
	if list == nil {
		return fmt.Errorf("what RabbitMQ needs: %s has no applications", found[0])
	}
	for name := range strings.SplitSeq(string(list[1]), ",") {
		if err := addApp(plugins, strings.Trim(name, "' \t\r\n"), to); err != nil {
			return err
		}
	}
	return nil
}
