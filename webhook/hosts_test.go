package webhook

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestWhichAddressesMayBeCalled(t *testing.T) {
	public, private := []string{}, []string{"10.0.0.0/8", "fd00::/8", "169.254.0.0/16"}
	named := []string{"Partner.example", "*.shop.internal", "localhost", "192.168.7.1"}
	tests := []struct {
		rules      []string
		host, addr string
		allowed    bool
	}{
		{public, "api.example.com", "93.184.216.34", true},
		{public, "api.example.com", "2606:2800:220:1::1", true},
		{public, "api.example.com", "10.1.2.3", false},
		{public, "api.example.com", "172.31.255.1", false},
		{public, "api.example.com", "172.32.0.1", true},
		{public, "api.example.com", "192.168.0.1", false},
		{public, "api.example.com", "127.0.0.1", false},
		{public, "api.example.com", "127.8.9.10", false},
		{public, "api.example.com", "0.0.0.0", false},
		{public, "api.example.com", "100.64.0.1", false},
		{public, "api.example.com", "198.18.0.1", false},
		{public, "api.example.com", "240.0.0.1", false},
		{public, "api.example.com", "255.255.255.255", false},
		{public, "api.example.com", "224.0.0.1", false},
		{public, "api.example.com", "169.254.169.254", false},
		{public, "api.example.com", "168.63.129.16", false},
		{public, "api.example.com", "::1", false},
		{public, "api.example.com", "::", false},
		{public, "api.example.com", "fe80::1", false},
		{public, "api.example.com", "fe80::1%eth0", false},
		{public, "api.example.com", "fd00:ec2::254", false},
		{public, "api.example.com", "fc00::1", false},
		{public, "api.example.com", "ff02::1", false},
		{public, "api.example.com", "2001:db8::1", false},
		{public, "api.example.com", "2001:0:4136:e378:8000:63bf:3fff:fdd2", false}, // Teredo
		{public, "mapped", "::ffff:10.0.0.1", false},
		{public, "mapped", "::ffff:169.254.169.254", false},
		{public, "mapped", "::ffff:93.184.216.34", true},
		{public, "compatible", "::7f00:1", false},
		{public, "NAT64", "64:ff9b::a00:1", false},
		{public, "NAT64", "64:ff9b::a9fe:a9fe", false},
		{public, "NAT64", "64:ff9b::5db8:d822", true},
		{public, "NAT64 of a network's own", "64:ff9b:1::a00:1", false},
		{public, "6to4", "2002:7f00:1::1", false},
		{public, "6to4", "2002:a9fe:a9fe::1", false},
		{private, "api.example.com", "10.1.2.3", true},
		{private, "api.example.com", "::ffff:10.1.2.3", true},
		{private, "api.example.com", "64:ff9b::a01:203", true},
		{private, "api.example.com", "fd12::1", true},
		{private, "api.example.com", "93.184.216.34", false},
		{private, "link-local, though a network has it", "169.254.169.254", false},
		{private, "metadata, though a network has it", "fd00:ec2::254", false},
		{named, "partner.example", "10.1.2.3", true},
		{named, "PARTNER.example.", "10.1.2.3", true},
		{named, "other.partner.example", "10.1.2.3", false},
		{named, "a.b.shop.internal", "10.1.2.3", true},
		{named, "shop.internal", "10.1.2.3", false},
		{named, "myshop.internal", "10.1.2.3", false},
		{named, "localhost", "127.0.0.1", true},
		{named, "localhost", "::1", true},
		{named, "192.168.7.1", "192.168.7.1", true},
		{named, "192.168.7.2", "192.168.7.2", false},
		{named, "partner.example", "169.254.169.254", false},
		{named, "partner.example", "::ffff:169.254.169.254", false},
		{named, "api.example.com", "93.184.216.34", false},
	}
	for _, test := range tests {
		h, err := newHosts(test.rules)
		if err != nil {
			t.Fatal(err)
		}
		err = h.check(test.host, netip.MustParseAddr(test.addr))
		if (err == nil) != test.allowed || err != nil && !errors.Is(err, errNotAllowed) {
			t.Errorf("%q: %s for %s: %v, want allowed %v", test.rules, test.addr, test.host, err, test.allowed)
		}
	}
}

func TestAHostThatIsNeverDialledIsRefusedBeforeItIsLookedUp(t *testing.T) {
	tests := []struct {
		rules []string
		host  string
		ok    bool
	}{
		{nil, "api.example.com", true},
		{nil, "localhost", false},
		{nil, "LOCALHOST.", false},
		{nil, "x.localhost", false},
		{nil, "127.0.0.1", false},
		{nil, "93.184.216.34", true},
		{[]string{"partner.example"}, "api.example.com", false},
		{[]string{"partner.example"}, "partner.example", true},
		{[]string{"10.0.0.0/8"}, "api.example.com", true},
		{[]string{"localhost"}, "localhost", true},
		{[]string{"localhost"}, "127.0.0.1", false},
	}
	for _, test := range tests {
		h, err := newHosts(test.rules)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.early(test.host); (err == nil) != test.ok {
			t.Errorf("%q: %s: %v, want ok %v", test.rules, test.host, err, test.ok)
		}
	}
}

func TestRulesThatAreNoHostsAreAllNamedAtOnce(t *testing.T) {
	_, err := newHosts([]string{"https://a", "b:80", "*.*.c", "", "10.0.0.0/33", "::ffff:10.0.0.0/104", "fine.example"})
	if err == nil {
		t.Fatal("no error")
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 6 {
		t.Errorf("%d mistakes, want 6: %v", n, err)
	}
}

// FuzzAddresses: whatever bytes an address has, none that the standard library knows to be private
// or local is called where nobody named hosts, in no wrapping.
func FuzzAddresses(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "93.184.216.34", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a00:1::", "fd00:ec2::254", "::1"} {
		f.Add(netip.MustParseAddr(s).AsSlice())
	}
	open, err := newHosts(nil)
	if err != nil {
		f.Fatal(err)
	}
	all, err := newHosts([]string{"0.0.0.0/0", "::/0", "named"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		inner := []netip.Addr{addr, addr.Unmap()}
		if addr.Is6() && !addr.Is4In6() {
			b := addr.As16()
			if string(b[:12]) == "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00" {
				inner = append(inner, netip.AddrFrom4([4]byte(b[12:])))
			}
			if b[0] == 0x20 && b[1] == 0x02 {
				inner = append(inner, netip.AddrFrom4([4]byte(b[2:6])))
			}
		}
		for _, a := range inner {
			local := a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()
			if open.check("x", addr) == nil && (local || a.IsPrivate() || a.IsLoopback()) {
				t.Errorf("%s, which is %s, may be called", addr, a)
			}
			if all.check("named", addr) == nil && local {
				t.Errorf("%s, which is %s, may be called by its name", addr, a)
			}
		}
	})
}
