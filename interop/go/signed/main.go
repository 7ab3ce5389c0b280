// Command signed sends with the credentials that a line on standard input names: `send ACCESSKEY SECRET TOPIC GROUP`, where
// "-" as access key means no credentials. It answers each line with `ok`, or with what the client says of the refusal.
//
// Argument: the name server.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func send(words []string, count int) error {
	options := []producer.Option{
		producer.WithNameServer([]string{os.Args[1]}),
		producer.WithGroupName(words[4]),
		producer.WithInstanceName(fmt.Sprintf("signed-%d", count)),
		producer.WithRetry(3),
		producer.WithSendMsgTimeout(120 * time.Second),
	}
	if words[1] != "-" {
		options = append(options, producer.WithCredentials(primitive.Credentials{AccessKey: words[1], SecretKey: words[2]}))
	}
	one, err := rocketmq.NewProducer(options...)
	if err != nil {
		return err
	}
	if err = one.Start(); err != nil {
		return err
	}
	defer one.Shutdown()
	_, err = one.SendSync(context.Background(), primitive.NewMessage(words[3], []byte("signed")))
	return err
}

func main() {
	rlog.SetLogLevel("error")
	lines := bufio.NewScanner(os.Stdin)
	for count := 0; lines.Scan(); count++ {
		said := "ok"
		if err := send(strings.Fields(lines.Text()), count); err != nil {
			said = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println("@@" + said)
	}
}
