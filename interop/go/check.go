package main

import (
	"bytes"
	"fmt"
	"reflect"
	"time"
)

// fail ends the scenario; perform reports the text.
func fail(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	if len(text) > 600 {
		text = text[:600] + "..."
	}
	panic(text)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(expected, found any, what string) {
	if !reflect.DeepEqual(expected, found) {
		fail("%s: expected %v, found %v", what, expected, found)
	}
}

func equalBytes(expected, found []byte, what string) {
	if !bytes.Equal(expected, found) {
		fail("%s: %d bytes differ from the expected %d", what, len(found), len(expected))
	}
}

// patience is the longest wait for an outcome.
const patience = 240 * time.Second

// await waits until the condition holds; what progress returns is part of the failure.
func await(what string, holds func() bool, progress func() any) {
	end := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(end) {
			fail("waited %v for %s; found %v", patience, what, progress())
		}
		time.Sleep(20 * time.Millisecond)
	}
}
