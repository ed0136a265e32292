package login

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
)

const (
	// renewal is how long before they expire credentials are asked for anew.
	renewal = 5 * time.Minute
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
)

// AWS is AWS_MSK_IAM with the credentials that a program finds where it runs, in the order of AWS's
// own libraries: keys in variables, a role for a web identity (EKS), the endpoint of a container
// (ECS, EKS Pod Identity), that of an instance (EC2). getenv looks a variable up. Files of profiles
// are not read.
func AWS(getenv func(string) string) sasl.Mechanism {
	w := &wallet{
		getenv: getenv, turn: make(turn, 1),
		far: http.Client{Timeout: timeout}, near: http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	return aws.ManagedStreamingIAM(w.auth)
}

// wallet keeps credentials until they are about to expire.
type wallet struct {
	getenv func(string) string
	// far goes through a proxy where variables name one.
	far http.Client
	// near is for what is on this machine: a proxy would answer for its own, and see the
	// credentials.
	near http.Client

	// turn is held while credentials are asked for: connections that open at the same time share
	// them.
	turn turn
	// keys are those of the last time, for who has the turn.
	keys keys
}

// keys are credentials as most endpoints give them. Without Expiration they last.
type keys struct {
	AccessKeyID     string `json:"AccessKeyId" xml:"AccessKeyId"`
	SecretAccessKey string
	Token           string `xml:"SessionToken"`
	Expiration      time.Time
}

// auth is called for each login. Credentials that are about to expire are asked for anew; where
// that fails, the old ones serve as long as they last.
func (w *wallet) auth(ctx context.Context) (aws.Auth, error) {
	if err := w.turn.take(ctx); err != nil {
		return aws.Auth{}, fmt.Errorf("credentials of AWS: %w", err)
	}
	defer w.turn.end()
	if w.keys.AccessKeyID == "" || !w.keys.Expiration.IsZero() && time.Until(w.keys.Expiration) < renewal {
		fresh, err := w.find(ctx)
		switch {
		case err == nil:
			w.keys = fresh
		case time.Until(w.keys.Expiration) <= 0: // those we have may do until then
			return aws.Auth{}, fmt.Errorf("credentials of AWS: %w", err)
		}
	}
	return aws.Auth{AccessKey: w.keys.AccessKeyID, SecretKey: w.keys.SecretAccessKey, SessionToken: w.keys.Token}, nil
}

// find asks the first source that variables name. A source that fails is an error: the next one
// might give the rights of something else.
func (w *wallet) find(ctx context.Context) (k keys, err error) {
	env := w.getenv
	switch {
	case env("AWS_ACCESS_KEY_ID") != "" && env("AWS_SECRET_ACCESS_KEY") != "":
		return keys{AccessKeyID: env("AWS_ACCESS_KEY_ID"), SecretAccessKey: env("AWS_SECRET_ACCESS_KEY"), Token: env("AWS_SESSION_TOKEN")}, nil
	case env("AWS_WEB_IDENTITY_TOKEN_FILE") != "" && env("AWS_ROLE_ARN") != "":
		k, err = w.ofWebIdentity(ctx)
	case env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" || env("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		k, err = w.ofContainer(ctx)
	case env("AWS_EC2_METADATA_DISABLED") != "true":
		k, err = w.ofInstance(ctx)
	default:
		err = errors.New("there are none: neither keys nor a role in variables")
	}
	if err == nil && (k.AccessKeyID == "" || k.SecretAccessKey == "") {
		err = errors.New("the endpoint gives none")
	}
	return k, err
}

// ofWebIdentity exchanges the token of a Kubernetes service account, which is renewed in its file,
// for keys of a role.
func (w *wallet) ofWebIdentity(ctx context.Context) (keys, error) {
	token, err := os.ReadFile(w.getenv("AWS_WEB_IDENTITY_TOKEN_FILE"))
	if err != nil {
		return keys{}, err
	}
	endpoint := "https://sts.amazonaws.com"
	if region := cmp.Or(w.getenv("AWS_REGION"), w.getenv("AWS_DEFAULT_REGION")); region != "" {
		endpoint = "https://sts." + region + ".amazonaws.com"
		// China is a partition of its own, with another domain.
		if strings.HasPrefix(region, "cn-") {
			endpoint += ".cn"
		}
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {w.getenv("AWS_ROLE_ARN")},
		"RoleSessionName": {cmp.Or(w.getenv("AWS_ROLE_SESSION_NAME"), "stepwell")}, "WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	body, err := ask(ctx, &w.far, http.MethodPost, cmp.Or(w.getenv("AWS_ENDPOINT_URL_STS"), endpoint), form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded")
	if err != nil {
		return keys{}, err
	}
	var answer struct {
		Keys keys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	err = xml.Unmarshal(body, &answer)
	return answer.Keys, err
}

// ofContainer asks the endpoint of ECS, whose address is fixed, or the one that EKS names.
func (w *wallet) ofContainer(ctx context.Context) (keys, error) {
	at := w.getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if relative := w.getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); relative != "" {
		at = "http://169.254.170.2" + relative
	}
	token := w.getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := w.getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return keys{}, err
		}
		token = strings.TrimSpace(string(text))
	}
	return w.askJSON(ctx, at, "Authorization", token)
}

// ofInstance asks the metadata of an EC2 instance (IMDSv2): a token, the role's name, its keys.
func (w *wallet) ofInstance(ctx context.Context) (keys, error) {
	at := cmp.Or(w.getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254") + "/latest/"
	token, err := ask(ctx, &w.near, http.MethodPut, at+"api/token", "", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
	if err != nil {
		return keys{}, err
	}
	const named = "X-Aws-Ec2-Metadata-Token"
	roles := at + "meta-data/iam/security-credentials/"
	role, err := ask(ctx, &w.near, http.MethodGet, roles, "", named, string(token))
	if err != nil {
		return keys{}, err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(role)), "\n")
	return w.askJSON(ctx, roles+first, named, string(token))
}

func (w *wallet) askJSON(ctx context.Context, at, name, value string) (k keys, err error) {
	body, err := ask(ctx, &w.near, http.MethodGet, at, "", name, value)
	if err == nil {
		err = json.Unmarshal(body, &k)
	}
	return k, err
}

// ask sends a request with one header, if it has a value.
func ask(ctx context.Context, client *http.Client, method, at, body, name, value string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if value != "" {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", req.URL.Host, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
}
