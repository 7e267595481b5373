// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"
)

//go:embed page.html
var pageSource string

// shown is how many of the newest slots and violations the page has.
const shown = 12

// page is what the template shows.
type page struct {
	State
	Workspaces   []workspaceRow
	Slots        []slotRow // newest first
	Violations   []Violation
	AllSlots     int
	AllViolation int
	Alive        int // nodes
	Ready        int // workspaces
	Endpoints    []Endpoint
}

type workspaceRow struct {
	Workspace
	ReadyCondition Condition
	Usage          *Usage // of the newest slot
}

// slotRow is a slot's usage by workspaces, in all.
type slotRow struct {
	Slot              time.Time
	Workspaces, Nodes int
	CPU, Memory, Pods int64 // millicore seconds, byte seconds, seconds
	Storage           int64 // bytes
	Share             int   // of CPU: percent of the busiest slot
}

// servePage renders the page. The template escapes whatever a request brought, for the place where it stands.
func (s *Server) servePage(w http.ResponseWriter, _ *http.Request) {
	functions := template.FuncMap{
		"ago": ago, "bytes": sizeOf, "average": s.average, "cores": cores, "memory": s.averageMemory,
		"coreHours": func(millicoreSeconds int64) string { return hours(float64(millicoreSeconds)/1000, 2, "core") },
		"podHours":  func(seconds int64) string { return hours(float64(seconds), 1, "pod") },
		"byteHours": func(byteSeconds int64) string { return sizeOf(byteSeconds/3600) + "·h" },
		"stamp":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	}
	var rendered bytes.Buffer
	parsed, err := template.New("page").Funcs(functions).Parse(pageSource)
	if err == nil {
		err = parsed.Execute(&rendered, newPage(s.State()))
	}
	if err != nil {
		s.options.Logger.Error(err, "The page cannot be rendered")
		http.Error(w, "the page cannot be rendered: see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(rendered.Bytes())
}

func newPage(state State) page {
	p := page{State: state, Endpoints: Endpoints(), AllViolation: len(state.Violations), Violations: slices.Clone(state.Violations)}
	slices.Reverse(p.Violations)
	p.Violations = p.Violations[:min(shown, len(p.Violations))]
	for _, node := range state.Nodes {
		if !node.Dead {
			p.Alive++
		}
	}
	newest := map[string]*Usage{} // by cluster and UID
	for i, u := range state.Usage {
		newest[u.Cluster+"/"+u.UID] = &state.Usage[i]
	}
	for _, w := range state.Workspaces {
		row := workspaceRow{w, w.Condition("Ready"), newest[w.Cluster+"/"+w.UID]}
		if row.ReadyCondition.Status == "True" {
			p.Ready++
		}
		p.Workspaces = append(p.Workspaces, row)
	}
	p.Slots, p.AllSlots = slots(state.Usage)
	return p
}

// slots sums up usage, which is sorted by slot, and returns the newest ones and how many there are in all.
func slots(usage []Usage) (rows []slotRow, all int) {
	for _, u := range usage {
		if len(rows) == 0 || !rows[len(rows)-1].Slot.Equal(u.Slot) {
			rows = append(rows, slotRow{Slot: u.Slot})
		}
		row := &rows[len(rows)-1]
		if u.Node != "" {
			row.Nodes++
			continue
		}
		row.Workspaces++
		row.CPU += orZero(u.CPUMillicoreSeconds)
		row.Memory += orZero(u.MemoryByteSeconds)
		row.Pods += orZero(u.PodSeconds)
		row.Storage += orZero(u.StorageBytes)
	}
	all = len(rows)
	rows = rows[max(0, all-shown):]
	slices.Reverse(rows)
	var busiest int64 = 1
	for _, row := range rows {
		busiest = max(busiest, row.CPU)
	}
	for i := range rows {
		rows[i].Share = int(100 * float64(rows[i].CPU) / float64(busiest))
	}
	return rows, all
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// average is the CPU that a workspace used over a slot, averageMemory its memory.
func (s *Server) average(u *Usage) string {
	if u == nil || u.CPUMillicoreSeconds == nil {
		return "–"
	}
	return strconv.FormatInt(*u.CPUMillicoreSeconds/s.slotSeconds(), 10) + "m"
}

func (s *Server) averageMemory(u *Usage) string {
	if u == nil || u.MemoryByteSeconds == nil {
		return "–"
	}
	return sizeOf(*u.MemoryByteSeconds / s.slotSeconds())
}

func (s *Server) slotSeconds() int64 { return max(1, int64(s.options.MeteringInterval/time.Second)) }

func cores(millicores int64) string {
	return strconv.FormatFloat(float64(millicores)/1000, 'f', -1, 64)
}

func hours(seconds float64, decimals int, unit string) string {
	return strconv.FormatFloat(seconds/3600, 'f', decimals, 64) + " " + unit + "·h"
}

func ago(now, then time.Time) string {
	switch d := now.Sub(then); {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

func sizeOf(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/1024, 0
	for ; size >= 1024 && unit < len(units)-1; unit++ {
		size /= 1024
	}
	if size < 10 {
		return fmt.Sprintf("%.1f %ciB", size, units[unit])
	}
	return fmt.Sprintf("%.0f %ciB", size, units[unit])
}
