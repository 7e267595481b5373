package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// printStatus tells what runs. It returns whether everything does.
func (c *instance) printStatus(ctx context.Context, out io.Writer) (bool, error) {
	if !c.exists() {
		fmt.Fprintf(out, "there is no instance %s\n", c.name)
		return false, nil
	}
	all := true
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tSTATE\tPID\tPORT\tMEMORY\tLOG")
	for _, k := range c.selected() {
		pid := c.pid(k.name)
		state, memory := "running", "-"
		switch {
		case pid != 0:
			memory = residentMemory(pid)
		case c.started(k.name):
			state, all = "crashed", false
		default:
			state, all = "stopped", false
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
			k.name, state, dash(pid), dash(c.Ports[k.port]), memory, c.logFile(k.name))
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintln(out)
	if c.pid("kube-apiserver") != 0 {
		fmt.Fprintln(out, "nodes:     ", c.nodeSummary(ctx))
	}
	fmt.Fprintln(out, "kubeconfig:", c.kubeconfig())
	if c.Options.Audit {
		fmt.Fprintln(out, "audit log: ", c.auditLog())
	}
	return all, nil
}

func (c *instance) nodeSummary(ctx context.Context) string {
	api, err := c.api()
	if err != nil {
		return err.Error()
	}
	nodes, err := api.listNodes(ctx)
	if err != nil {
		return err.Error()
	}
	ready := 0
	for _, n := range nodes {
		if n.ready() {
			ready++
		}
	}
	return fmt.Sprintf("%d, %d of them Ready", len(nodes), ready)
}

func dash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// residentMemory reads VmRSS, for example "VmRSS:	  123456 kB".
func residentMemory(pid int) string {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "-"
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			if err == nil {
				return strconv.Itoa(kb/1024) + "M"
			}
		}
	}
	return "-"
}
