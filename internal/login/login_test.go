package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
)

// first is what a client sends first.
func first(t *testing.T, m sasl.Mechanism) (string, error) {
	t.Helper()
	_, sent, err := m.Authenticate(t.Context(), "b-1.cluster.kafka.eu-west-1.amazonaws.com:9098")
	return string(sent), err
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestATokenThatIsRenewedInItsFileIsUsedByTheNextLogin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	m := OAuth{File: file, Extensions: map[string]string{"logicalCluster": "lkc-1"}}.Mechanism()
	if m.Name() != "OAUTHBEARER" {
		t.Error(m.Name())
	}
	if _, err := first(t, m); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without a file: %v", err)
	}
	for _, token := range []string{"one", "two"} {
		write(t, file, token+"\n")
		if sent, err := first(t, m); err != nil || !strings.Contains(sent, "auth=Bearer "+token+"\x01logicalCluster=lkc-1\x01") {
			t.Errorf("sent %q, %v", sent, err)
		}
	}
	write(t, file, " \n")
	if _, err := first(t, m); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("with an empty file: %v", err)
	}
}

func TestATokenThatKafkaRefusesIsARefusedLogin(t *testing.T) {
	t.Parallel()
	session, _, err := OAuth{File: write(t, filepath.Join(t.TempDir(), "token"), "expired")}.Mechanism().Authenticate(t.Context(), "kafka:9092")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := session.Challenge([]byte(`{"status":"invalid_token"}`)); !errors.Is(err, kerr.SaslAuthenticationFailed) || !strings.Contains(err.Error(), "invalid_token") {
		t.Errorf("refused: %v", err)
	}
	if done, _, err := session.Challenge(nil); !done || err != nil {
		t.Errorf("taken: %v, %v", done, err)
	}
}

func TestATokenOfAnEndpointServesAllLoginsUntilItExpires(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	lasts := 3600
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "me" || secret != "a-secret" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka logs" {
			http.Error(w, "no <html>", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":%d}`, asked.Add(1), lasts)
	}))
	defer s.Close()
	o := OAuth{URL: s.URL, ClientID: "me", ClientSecret: "a-secret", Scopes: []string{"kafka", "logs"}}
	m := o.Mechanism()
	for range 3 {
		if sent, err := first(t, m); err != nil || !strings.Contains(sent, "Bearer token-1\x01") {
			t.Errorf("sent %q, %v", sent, err)
		}
	}
	lasts = 5 // less than what is kept of it
	m = o.Mechanism()
	for n := range 2 {
		if sent, err := first(t, m); err != nil || !strings.Contains(sent, fmt.Sprintf("Bearer token-%d\x01", n+2)) {
			t.Errorf("sent %q, %v", sent, err)
		}
	}
	o.ClientSecret = "tell-nobody"
	if _, err := first(t, o.Mechanism()); err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "tell-nobody") || strings.Contains(err.Error(), "html") {
		t.Errorf("a wrong secret: %v", err)
	}
}

// lookup finds variables in a map.
func lookup(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// place is where a program runs: endpoints that give credentials. Those of the n-th question are
// called key-n.
func place(t *testing.T, lasts time.Duration) (at string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	until := time.Now().Add(lasts).UTC().Format(time.RFC3339)
	plain := func(w http.ResponseWriter) {
		_ = json.NewEncoder(w).Encode(map[string]string{
			"Code": "Success", "AccessKeyId": fmt.Sprintf("key-%d", asked.Add(1)), "SecretAccessKey": "s", "Token": "session", "Expiration": until,
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sts", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("RoleArn") != "arn:role" || r.FormValue("WebIdentityToken") != "jwt" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>`+
			`<SessionToken>session</SessionToken><SecretAccessKey>s</SecretAccessKey><Expiration>%s</Expiration><AccessKeyId>key-%d</AccessKeyId>`+
			`</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, until, asked.Add(1))
	})
	mux.HandleFunc("GET /container", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "pod" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		plain(w)
	})
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte("imds"))
	})
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/{role...}", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "imds":
			http.Error(w, "no", http.StatusUnauthorized)
		case r.PathValue("role") == "":
			_, _ = w.Write([]byte("my-role"))
		case r.PathValue("role") == "my-role":
			plain(w)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestCredentialsOfAWSAreFoundWhereTheProgramRuns(t *testing.T) {
	t.Parallel()
	at, _ := place(t, time.Hour)
	token := write(t, filepath.Join(t.TempDir(), "token"), "jwt\n")
	pod := write(t, filepath.Join(t.TempDir(), "pod"), "pod\n")
	for name, env := range map[string]map[string]string{
		"keys":         {"AWS_ACCESS_KEY_ID": "key-0", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "session"},
		"web identity": {"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:role", "AWS_ENDPOINT_URL_STS": at + "/sts"},
		"container":    {"AWS_CONTAINER_CREDENTIALS_FULL_URI": at + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod"},
		"pod":          {"AWS_CONTAINER_CREDENTIALS_FULL_URI": at + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": pod},
		"instance":     {"AWS_EC2_METADATA_SERVICE_ENDPOINT": at},
	} {
		t.Run(name, func(t *testing.T) {
			m := AWS(lookup(env))
			if m.Name() != "AWS_MSK_IAM" {
				t.Error(m.Name())
			}
			sent, err := first(t, m)
			if err != nil || !strings.Contains(sent, `"x-amz-credential":"key-`) || !strings.Contains(sent, `"x-amz-security-token":"session"`) ||
				!strings.Contains(sent, "eu-west-1/kafka-cluster") {
				t.Errorf("sent %s, %v", sent, err)
			}
		})
	}
	for name, env := range map[string]map[string]string{
		"none":         {"AWS_EC2_METADATA_DISABLED": "true"},
		"another role": {"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:other", "AWS_ENDPOINT_URL_STS": at + "/sts"},
		"no token":     {"AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere", "AWS_ROLE_ARN": "arn:role"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := first(t, AWS(lookup(env))); err == nil || !strings.Contains(err.Error(), "credentials of AWS") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCredentialsOfAWSAreAskedForAnewBeforeTheyExpireAndUsedAsLongAsTheyLast(t *testing.T) {
	t.Parallel()
	for lasts, want := range map[time.Duration]int64{time.Hour: 1, renewal / 2: 3} {
		at, asked := place(t, lasts)
		env := map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": at}
		m := AWS(lookup(env))
		for range 3 {
			if _, err := first(t, m); err != nil {
				t.Error(err)
			}
		}
		if asked.Load() != want {
			t.Errorf("credentials for %v were asked for %d times in 3 logins", lasts, asked.Load())
		}
		env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1"
		if _, err := first(t, m); err != nil {
			t.Errorf("while there are some: %v", err)
		}
	}
	at, _ := place(t, -time.Second)
	m := AWS(lookup(map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": at + "/nowhere"}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := m.Authenticate(ctx, "h:1"); err == nil {
		t.Error("nothing was found, and no error")
	}
}

func TestALoginThatWaitsForTheCredentialsOfAnotherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked, free := make(chan struct{}, 2), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-free:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(free) })
	for name, m := range map[string]sasl.Mechanism{
		"a role":  AWS(lookup(map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": s.URL})),
		"a token": OAuth{URL: s.URL, ClientID: "me", ClientSecret: "a-secret"}.Mechanism(),
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 2)
			login := func(ctx context.Context) {
				_, _, err := m.Authenticate(ctx, "h:1")
				ended <- err
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go login(ctx)
			<-asked
			soon, cancelSoon := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancelSoon()
			go login(soon)
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("it waits for the other's answer")
			}
			cancel()
			if err := <-ended; t.Failed() || !errors.Is(err, context.Canceled) {
				t.Errorf("the other ends with %v", err)
			}
		})
	}
}

// It changes what all share, so it is not parallel.
func TestCredentialsOfTheMachineAreNeverAskedForThroughAProxy(t *testing.T) {
	at, _ := place(t, time.Hour)
	var proxied atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		proxied.Add(1)
		http.Error(w, "no", http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t.Fatal("it is none")
	}
	before := shared.Proxy
	t.Cleanup(func() { shared.Proxy = before })
	shared.Proxy = http.ProxyURL(to)
	token := write(t, filepath.Join(t.TempDir(), "token"), "jwt")
	for name, test := range map[string]struct {
		env  map[string]string
		want int64
	}{
		"instance":     {map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": at}, 0},
		"container":    {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": at + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod"}, 0},
		"web identity": {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:role", "AWS_ENDPOINT_URL_STS": at + "/sts"}, 1}, // is not on the machine
	} {
		proxied.Store(0)
		if _, err := first(t, AWS(lookup(test.env))); (err != nil) != (test.want > 0) || proxied.Load() != test.want {
			t.Errorf("%s: %d questions go through the proxy, not %d; %v", name, proxied.Load(), test.want, err)
		}
	}
}
