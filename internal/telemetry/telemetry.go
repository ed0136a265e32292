// Package telemetry has the actor's metrics and spans. All methods work on nil, which measures nothing.
package telemetry
