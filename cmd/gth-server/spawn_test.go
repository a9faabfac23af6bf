package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The budgets of a start, with the slack that a noisy machine gets.
const (
	spawnBudget    = 8.0 // times a Go program that prints one line
	residentBudget = 40  // MiB after initialize
	slack          = 1.5
)

// BenchmarkSpawn measures the time from starting the program to its answer
// to initialize, as a multiple of starting a Go program that prints one
// line, in pairs; and what it holds in memory then. It fails over budget.
func BenchmarkSpawn(b *testing.B) {
	bin := released(b)
	anchor := helloProgram(b)
	home := b.TempDir()
	var ours, theirs []time.Duration
	resident := 0
	rounds := max(b.N, 15)
	for range rounds {
		begin := time.Now()
		if err := exec.Command(anchor).Run(); err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, time.Since(begin))
		took, rss := initialize(b, bin, home)
		ours = append(ours, took)
		resident = max(resident, rss)
	}
	ratio := float64(median(ours)) / float64(median(theirs))
	b.ReportMetric(ratio, "x/hello")
	b.ReportMetric(float64(median(ours).Microseconds())/1000, "ms/start")
	b.ReportMetric(float64(resident)/1024, "MiB")
	if ratio > spawnBudget*slack {
		b.Errorf("a start costs %.1f times a hello world, the budget is %.0f", ratio, spawnBudget)
	}
	if resident > residentBudget<<10 {
		b.Errorf("%d KiB resident after initialize, the budget is %d MiB", resident, residentBudget)
	}
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// initialize starts the program and returns how long its answer took and
// how many KiB it holds, 0 where the system does not tell.
func initialize(b *testing.B, bin, home string) (time.Duration, int) {
	cmd := exec.Command(bin, "acp", "--model", "openai:x", "--base-url", "http://127.0.0.1:1/v1")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n"); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	took := time.Since(begin)
	if err != nil || !strings.Contains(line, `"protocolVersion":1`) {
		b.Fatalf("initialize: %q, %v", line, err)
	}
	rss := resident(cmd.Process.Pid)
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return took, rss
}

func resident(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb
		}
	}
	return 0
}

// released builds the program as it is released, which starts a little
// sooner than with the C library.
func released(b *testing.B) string {
	bin := filepath.Join(b.TempDir(), "gth-server")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("the program does not build: %v\n%s", err, out)
	}
	return bin
}

func helloProgram(b *testing.B) string {
	dir := b.TempDir()
	src := filepath.Join(dir, "hello.go")
	if err := os.WriteFile(src, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	bin := filepath.Join(dir, "hello")
	if out, err := exec.Command("go", "build", "-o", bin, src).CombinedOutput(); err != nil {
		b.Fatalf("hello world does not build: %v\n%s", err, out)
	}
	return bin
}
