// Package mistakes has what people post to package webhook and should not have: tests of its server
// alone and of a whole retrier go through the same.
package mistakes

import "strings"

// Post is a body with something wrong, posted without headers but its type, to a server that may
// call localhost alone, has a secret partner-a, and knows no workflow.
type Post struct {
	Path, Body string
	// Says is part of the answer, a 400.
	Says string
}

// maxURL is how long a URL may be, in bytes.
const maxURL = 8 << 10

// All are more than a hundred.
func All() []Post {
	var p posts
	p.bodies()
	p.requests()
	p.members()
	p.rest()
	return p
}

type posts []Post

func (p *posts) add(path, body, says string) { *p = append(*p, Post{path, body, says}) }

// callWith is a good call but for these members.
func callWith(members string) string {
	return `{"request":{"url":"http://localhost/"},"waits":[],` + members + `}`
}

// requestWith is a good call but for these members of its request.
func requestWith(members string) string {
	return `{"request":{"url":"http://localhost/",` + members + `},"waits":[]}`
}

// bodies are no JSON, or not the object that is asked for.
func (p *posts) bodies() {
	p.add("/calls", "", "the body is empty")
	p.add("/calls", "   ", "the body is empty")
	p.add("/calls", "{", "not JSON")
	p.add("/calls", "{}x", "not JSON")
	p.add("/calls", "{} {}", "not JSON")
	p.add("/calls", "{'a':1}", "not JSON")
	p.add("/calls", `{"a":1,}`, "not JSON")
	p.add("/calls", "\xff", "not UTF-8")
	p.add("/calls", `{"id":"`+"\xff"+`"}`, "not UTF-8")
	for _, no := range []string{"[]", "1", `"x"`, "true", "null"} {
		p.add("/calls", no, "must be a JSON object")
		p.add("/retry", no, "must be a JSON object")
		p.add("/retry_workflow", no, "must be a JSON object")
	}
	p.add("/calls", "{}", "request is required")
	p.add("/calls", `{"request":{}}`, "request.url is required")
	p.add("/calls", `{"request":{"url":"http://localhost/"}}`, "waits is required, or workflow")
	for _, no := range []string{"1", "[]", `"x"`, "true"} {
		p.add("/calls", `{"request":`+no+`,"waits":[]}`, "request must be a JSON object")
		p.add("/calls", callWith(`"on_failure":`+no), "on_failure must be a JSON object")
		p.add("/retry", `{"retry_request":`+no+`}`, "retry_request must be a JSON object")
	}
}

// requests are those with a request that cannot be made.
func (p *posts) requests() {
	for url, says := range map[string]string{
		`"ftp://localhost/"`: "must begin with https://", `"localhost"`: "must begin with https://", `"http://"`: "must begin with https://",
		`"http:///x"`: "must begin with https://", `"mailto:a@b"`: "must begin with https://", `"http://u:p@localhost/"`: "no user and password",
		`"http://localhost:0/"`: "cannot be dialled", `"http://localhost:99999/"`: "cannot be dialled", `"http://localhost:/"`: "cannot be dialled",
		`"http://a b/"`: "no URL", `"http://bücher.example/"`: "xn--", `"http://a..b/"`: "cannot be dialled", `"http://%zz/"`: "no URL", `1`: "must be a text",
		`"http://10.0.0.1/"`: "may not be called", `"http://[::1]/"`: "may not be called", `"http://169.254.169.254/"`: "may not be called",
		`"http://other.example/"`: "may not be called", `"http://localhost/` + strings.Repeat("x", maxURL) + `"`: "are the limit",
	} {
		p.add("/calls", `{"request":{"url":`+url+`},"waits":[]}`, says)
	}
	for method, says := range map[string]string{`"CONNECT"`: "none of GET", `"TRACE"`: "none of GET", `"P T"`: "none of GET", `7`: "must be a text", `""`: "method is empty: leave it out for POST"} {
		p.add("/calls", requestWith(`"method":`+method), says)
	}
	for headers, says := range map[string]string{
		`[]`: "must be a JSON object", `{"a b":"1"}`: "no name", `{"":"1"}`: "no name", `{"a":1}`: "must be a text", `{"a":[1]}`: "must be a text",
		`{"a":{}}`: "must be a text", `{"a":"x\ny"}`: "line breaks", `{"Host":"x"}`: "the URL's host", `{"content-length":"1"}`: "about a connection",
		`{"Transfer-Encoding":"chunked"}`: "about a connection", `{"webhook-signature":"v1,x"}`: "made by sign",
	} {
		p.add("/calls", requestWith(`"headers":`+headers), says)
	}
}

// members are those with another member that is wrong.
func (p *posts) members() {
	for waits, says := range map[string]string{
		`"5s"`: "must be a list", `5`: "must be a list", `[5]`: `must be a text such as "5s"`, `["5"]`: "no duration", `["-1s"]`: "not within", `["soon"]`: "no duration",
		`["721h"]`: "not within", `["400h","400h"]`: "together", `[` + strings.Repeat(`"1s",`, 1000) + `"1s"]`: "are the limit", `[null]`: "no duration",
	} {
		p.add("/calls", `{"request":{"url":"http://localhost/"},"waits":`+waits+`}`, says)
	}
	p.add("/calls", callWith(`"workflow":"x"`), "beside waits")
	p.add("/calls", `{"request":{"url":"http://localhost/"},"workflow":"nope"}`, `workflow "nope" is not there`)
	p.add("/calls", `{"request":{"url":"http://localhost/"},"workflow":7}`, "must be a text")
	p.add("/calls", callWith(`"after":"1000h"`), "not within")
	p.add("/calls", callWith(`"after":5`), "must be a text such as")
	p.add("/calls", callWith(`"id":7`), "must be a text")
	p.add("/calls", callWith(`"id":"a\nb"`), "printable ASCII")
	p.add("/calls", callWith(`"id":"é"`), "printable ASCII")
	p.add("/calls", callWith(`"id":" a"`), "begin or end with a space")
	p.add("/calls", callWith(`"id":"`+strings.Repeat("x", 201)+`"`), "200 are the limit")
	p.add("/calls", callWith(`"id":""`), "id is empty: leave it out for a random one")
	p.add("/calls", callWith(`"id":"a","id":"b"`), "is there twice")
	p.add("/calls", callWith(`"sign":""`), "sign is empty: leave it out for a call that is not signed")
	p.add("/calls", callWith(`"sign":"nobody"`), "no secret")
	p.add("/calls", callWith(`"id":"a.b","sign":"partner-a"`), "full stop")
	for stop, says := range map[string]string{`404`: "must be a list", `["404"]`: "stop_on[0] must be a number, not a text", `[200]`: "no status", `[600]`: "no status", `[4.5]`: "no status"} {
		p.add("/calls", callWith(`"stop_on":`+stop), says)
	}
	p.add("/calls", callWith(`"wait":["5s"]`), "wait is not known here; known: id, request, waits")
	p.add("/calls", requestWith(`"uri":"x"`), "request.uri is not known here")
}

// rest are those of the REST retrier's two calls.
func (p *posts) rest() {
	p.add("/retry", `{}`, "retry_request is required")
	p.add("/retry", `{"retry_request":{"url":"http://localhost/"}}`, `x-retry-workflow was not sent, or is empty, so workflow "default" is taken`)
	p.add("/retry", `{"message_id":"a","retry_request":{"url":"http://localhost/","method":"POST"}}`, "retry_request.method is not known here")
	p.add("/retry_workflow", `{}`, "name must be")
	p.add("/retry_workflow", `{"name":"a"}`, "retry_delays must have a delay")
	p.add("/retry_workflow", `{"name":"a","retry_delays":[]}`, "retry_delays must have a delay")
	p.add("/retry_workflow", `{"name":"a b","retry_delays":[1]}`, "name must be")
	for delays, says := range map[string]string{`["5s"]`: "milliseconds", `[-1]`: "milliseconds", `[1.5]`: "milliseconds", `[1e3]`: "milliseconds", `5`: "must be a list", `[2592000001]`: "milliseconds"} {
		p.add("/retry_workflow", `{"name":"a","retry_delays":`+delays+`}`, says)
	}
}
