//go:build long

package testbroker

import (
	"strings"
	"testing"
	"time"
)

func TestAClusterKeepsItsMessagesWhenOneAndThenAllOfItsNodesAreKilled(t *testing.T) {
	for _, version := range Releases() {
		t.Run(version, func(t *testing.T) {
			nodes := StartRabbitCluster(t, version, 3, RabbitOptions{})
			store(t, nodes[0].URL, "kept")
			members := nodes[1].Ctl("-q", "list_queues", "name", "members")
			for _, r := range nodes {
				if !strings.Contains(members, r.Name()) {
					t.Fatalf("%s has no part of the queue: %s", r.Name(), members)
				}
			}
			<-time.After(2 * time.Second) // a younger queue may not outlive a kill
			nodes[0].Kill()
			if body := await(t, nodes[1].URL, "kept"); body != "survivor" {
				t.Fatalf("without the first node the queue gave %q", body)
			}
			store(t, nodes[1].URL, "kept")
			nodes[1].Kill()
			nodes[2].Kill()
			StartTogether(nodes...)
			if body := await(t, nodes[2].URL, "kept"); body != "survivor" {
				t.Fatalf("after all were killed the queue gave %q", body)
			}
		})
	}
}

// await takes one message, as soon as the queue has a leader again.
func await(t *testing.T, url, queue string) string {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; {
		body, err := get(url, queue)
		if err == nil {
			return body
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}
