package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// hosts says which addresses may be called. Its rules are about the address that is dialled, not
// about the URL: a name may point anywhere, and to another place the next time. It does not change.
type hosts struct {
	// names are whole names, suffixes have their dot: who is named so may have any address but
	// those of never.
	names    []string
	suffixes []string
	networks []netip.Prefix
}

// maxHosts is how many rules there may be: each is looked at for each connection.
const maxHosts = 1000

// newHosts reads rules: names, *.suffix, addresses and networks. None at all means the public
// addresses.
func newHosts(rules []string) (*hosts, error) {
	h := &hosts{}
	var errs []error
	if len(rules) > maxHosts {
		errs = append(errs, fmt.Errorf("%d hosts are named, and %d are the limit: use *.suffix or networks", len(rules), maxHosts))
	}
	for _, rule := range rules {
		if err := h.add(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(rule)), ".")); err != nil {
			errs = append(errs, err)
		}
	}
	return h, errors.Join(errs...)
}

// add reads one rule. An address is a network of its own, a mapped one that of IPv4.
func (h *hosts) add(rule string) error {
	bare := strings.TrimSuffix(strings.TrimPrefix(rule, "["), "]")
	if addr, err := netip.ParseAddr(bare); err == nil && addr.Zone() == "" {
		addr = unpacked(addr)
		h.networks = append(h.networks, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	if network, err := netip.ParsePrefix(rule); err == nil {
		if addr := network.Addr(); addr.Is4In6() {
			return fmt.Errorf("host %q: write the network as one of IPv4", rule)
		}
		h.networks = append(h.networks, network.Masked())
		return nil
	}
	name, suffix := strings.CutPrefix(rule, "*.")
	if !isHostName(name) {
		return fmt.Errorf("host %q is neither a name without a port, as api.example.com, nor a suffix, as *.example.com, nor an address or network, as 10.0.0.0/8", rule)
	}
	if suffix {
		h.suffixes = append(h.suffixes, "."+name)
	} else {
		h.names = append(h.names, name)
	}
	return nil
}

// isHostName says whether s can be a name in the DNS, in lower case; underscores are in use inside
// clusters.
func isHostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// any says that nobody named hosts: public addresses may be called.
func (h *hosts) any() bool { return len(h.names)+len(h.suffixes)+len(h.networks) == 0 }

// named says whether the name is allowed wherever it points.
func (h *hosts) named(name string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return slices.Contains(h.names, name) ||
		slices.ContainsFunc(h.suffixes, func(s string) bool { return len(name) > len(s) && strings.HasSuffix(name, s) })
}

// errNotAllowed is the cause of all refusals: no further try helps until somebody changes a
// setting.
var errNotAllowed = errors.New("may not be called")

// early refuses a host of which it is known before a name is looked up that it is never dialled.
func (h *hosts) early(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return h.check(host, addr)
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	switch {
	case h.named(name), len(h.networks) > 0: // what it points to decides
		return nil
	case !h.any():
		return fmt.Errorf("%q %w: it is none of the hosts that are allowed", host, errNotAllowed)
	case name == "localhost", strings.HasSuffix(name, ".localhost"):
		return fmt.Errorf("%q %w: no hosts are named, and without them only public addresses are", host, errNotAllowed)
	}
	return nil
}

// check says whether a connection to addr may be made, for a URL whose host is given. The order
// matters: nothing that is named opens what never may be called.
func (h *hosts) check(host string, addr netip.Addr) error {
	real, what := unpacked(addr), addr.String()
	if host != what {
		what += fmt.Sprintf(" (for %q)", host)
	}
	switch {
	case isNever(addr), isNever(real):
		return fmt.Errorf("%s %w: link-local addresses, multicast and those of cloud metadata never are", what, errNotAllowed)
	case h.named(host), slices.ContainsFunc(h.networks, func(n netip.Prefix) bool { return n.Contains(real) }):
		return nil
	case !h.any():
		return fmt.Errorf("%s %w: it is none of the hosts that are allowed", what, errNotAllowed)
	case !isPublic(real):
		return fmt.Errorf("%s %w: it is no public address, and no hosts are named", what, errNotAllowed)
	}
	return nil
}

// unpacked is the IPv4 address that an IPv6 one stands for: mapped, translated by NAT64, or routed
// by 6to4. Else it is the address itself.
func unpacked(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	switch {
	case nat64().Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour().Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return addr
}

func nat64() netip.Prefix     { return netip.MustParsePrefix("64:ff9b::/96") } // RFC 6052
func sixToFour() netip.Prefix { return netip.MustParsePrefix("2002::/16") }    // RFC 3056

// within says whether one of the networks has the address.
func within(addr netip.Addr, networks ...string) bool {
	return slices.ContainsFunc(networks, func(n string) bool { return netip.MustParsePrefix(n).Contains(addr) })
}

// isNever is about addresses that no setting opens: they are the machine's own link, where a
// cloud's metadata service gives out credentials, or no address of a server at all.
func isNever(addr netip.Addr) bool {
	return !addr.IsValid() || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() ||
		within(addr, "0.0.0.0/8", "255.255.255.255/32",
			"fd00:ec2::254/128",                        // AWS
			"fd20:ce::254/128",                         // Google Cloud
			"168.63.129.16/32",                         // Azure
			"100.100.100.200/32",                       // Alibaba Cloud
			"192.0.0.192/32", "fd00:c1::a9fe:a9fe/128", // Oracle Cloud
		)
}

// isPublic says whether the address, unpacked, is one of the internet: none of the special-purpose
// registries of IANA (RFC 6890).
func isPublic(addr netip.Addr) bool {
	if addr.Is4() {
		return !within(addr, "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
			"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
			"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")
	}
	// Only 2000::/3 is given out as global unicast; Teredo and what else 2001::/23 has is none.
	return within(addr, "2000::/3") && !within(addr, "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
}
