package config

import (
	"net/url"
	"reflect"
	"strings"
)

// sasl checks that a mechanism has what it needs, and nothing that it would not look at: a password
// beside a mechanism without one is a mistake of somebody who thinks that it counts.
func (v *checker) sasl(s SASL, tls bool) {
	const at = "kafka.sasl."
	password, token := false, false
	switch s.Mechanism {
	case "", "AWS_MSK_IAM":
	case "OAUTHBEARER":
		token = true
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		password = true
	default:
		v.oneOf(at+"mechanism", s.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")
		return // what it takes is not known
	}
	if s.Mechanism == "" {
		v.check(s.Username == "" && s.Password == "", at+"mechanism", "is required beside a user name or password: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		v.check(s.OAuth.isZero(), at+"mechanism", "is required beside settings of OAuth: OAUTHBEARER")
		return
	}
	v.check(!password || s.Username != "", at+"username", "is required with this mechanism")
	v.check(!password || s.Password != "", at+"password", "is required with this mechanism")
	v.check(password || s.Username == "" && s.Password == "", at+"mechanism", "takes neither user name nor password")
	v.check(token || s.OAuth.isZero(), at+"mechanism", "takes no settings of OAuth: they are for OAUTHBEARER")
	v.check(s.Mechanism != "AWS_MSK_IAM" || tls, "kafka.tls.enabled", "must be true with AWS_MSK_IAM")
	if token {
		v.oauth(s.OAuth)
	}
}

func (o OAuth) isZero() bool { return reflect.ValueOf(o).IsZero() }

// oauth checks where tokens come from: a file, or an endpoint with a client's id and secret.
func (v *checker) oauth(o OAuth) {
	const at = "kafka.sasl.oauth."
	v.check((o.TokenFile == "") != (o.TokenURL == ""), at+"token_file", "or %s is required with OAUTHBEARER, and not both", v.names.variable(at+"token_url"))
	for _, e := range o.Extensions {
		name, _, ok := strings.Cut(e, "=")
		v.check(ok && name != "" && name != "auth", at+"extensions", "must be name=value, separated by commas")
	}
	if o.TokenURL == "" {
		v.check(o.ClientID == "" && o.ClientSecret == "" && o.Scope == "", at+"token_url", "is required beside a client id, secret or scope")
		return
	}
	u, err := url.Parse(o.TokenURL)
	v.check(err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil, at+"token_url", "must be an http(s):// URL without a user")
	v.check(o.ClientID != "", at+"client_id", "is required beside %s", v.names.variable(at+"token_url"))
	v.check(o.ClientSecret != "", at+"client_secret", "is required beside %s", v.names.variable(at+"token_url"))
}
