// Package local runs real brokers as children of this process: Apache Kafka
// from Maven's jars, RabbitMQ from the system's package or from a newer
// release kept in a cache. Every node has a folder and ports of its own, and
// dies with the process that started it.
package local
