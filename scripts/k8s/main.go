// An API server, its controllers, or etcd: as the first argument says, with the flags of that program.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "use: k8s apiserver|controller-manager|etcd FLAGS")
		os.Exit(2)
	}
	what := os.Args[1]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	switch what {
	case "apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "etcd":
		etcdmain.Main(os.Args)
	default:
		fmt.Fprintln(os.Stderr, what+": unknown program")
		os.Exit(2)
	}
}
