// Command pause is the process of a Pod's sandbox: it waits to be told to end. Kubernetes' own comes
// as an image only, and no registry is needed here.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	<-told
}
