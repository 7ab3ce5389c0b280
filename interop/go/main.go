// Command interop runs scenarios of the official Go client, several at a time, each with its own topic and groups.
//
// Arguments and output are those of interop/remoting_clients.py; "list" prints the names of the scenarios.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type scenario struct {
	name string
	run  func(*stage) string
}

// The ones that mostly wait come first.
var scenarios = []scenario{
	{"retry-dlq", deadLetter},
	{"orderly", orderly},
	{"rebalance", rebalance},
	{"requests", requests},
	{"send-sync", sendSync},
	{"send-async", sendAsync},
	{"send-oneway", sendOneWay},
	{"send-batch", sendBatch},
	{"compression", compression},
	{"large-body", largeBody},
	{"tags", tags},
	{"long-polling", longPolling},
	{"broadcast", broadcast},
	{"pull", pull},
	{"restart", resume},
	{"kill9", kill},
}

const atOnce = 6

var input = bufio.NewReader(os.Stdin)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "list" {
		for _, one := range scenarios {
			fmt.Println(one.name)
		}
		return
	}
	rlog.SetLogLevel("warn")
	if err := rlog.SetOutputPath("client.log"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, name := range os.Args[4:] {
		slots <- struct{}{}
		running.Add(1)
		go func() {
			defer func() { <-slots; running.Done() }()
			perform(name)
		}()
	}
	running.Wait()
}

func perform(name string) {
	start := time.Now()
	var chosen *scenario
	for i := range scenarios {
		if scenarios[i].name == name {
			chosen = &scenarios[i]
		}
	}
	if chosen == nil {
		fmt.Printf("@fail %s 0 no such scenario in this client\n", name)
		return
	}
	stage := newStage(os.Args[1], os.Args[2], name, os.Args[3])
	outcome := func() (line string) {
		defer func() {
			if reason := recover(); reason != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n%s\n", name, reason, debug.Stack())
				text := strings.Join(strings.Fields(fmt.Sprint(reason)), " ")
				line = fmt.Sprintf("@fail %s %.1f %s", name, time.Since(start).Seconds(), text)
			}
		}()
		note := chosen.run(stage)
		return fmt.Sprintf("@ok %s %.1f %s", name, time.Since(start).Seconds(), note)
	}()
	fmt.Println(outcome)
	stage.close()
}

// ask asks the runner for a restart and waits until the server is back.
func ask(request string) {
	fmt.Println("@" + request)
	_, err := input.ReadString('\n')
	must(err)
}
