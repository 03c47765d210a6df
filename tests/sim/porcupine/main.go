// Porcupine as a second opinion on the simulator's histories: each queue is checked as one append-only log.
//
// Each file has a history of a queue in JSON, as tests/sim/histories.py writes it. The program prints one line a file,
// "NAME ok", "NAME illegal" or "NAME unknown", and ends with 1 when some history is not ok.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	timeout = 30 * time.Second
	unknown = -1 // end of an append whose response never came
)

// Operation is an append, or the read of one offset. Times are microseconds of the simulation.
type Operation struct {
	Client int    `json:"client"`
	Kind   string `json:"kind"` // append or read
	Key    string `json:"key"`
	Offset int    `json:"offset"` // of an append whose response never came: -1
	Begin  int64  `json:"begin"`
	End    int64  `json:"end"`
}

// log is the first model: what lies at an offset. Offsets do not depend on each other, so each is a register of its own,
// which is written once: an append puts its key there if it is free, a read finds that key.
var log = porcupine.Model{
	Partition: byOffset,
	Init:      func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		held, operation := state.(string), input.(Operation)
		if operation.Kind == "append" {
			return held == "" || held == operation.Key, operation.Key
		}
		return held == operation.Key, held
	},
	DescribeOperation: func(input, output interface{}) string {
		operation := input.(Operation)
		return fmt.Sprintf("%s %s at %d", operation.Kind, operation.Key, operation.Offset)
	},
}

func byOffset(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[int][]porcupine.Operation{}
	for _, each := range history {
		offset := each.Input.(Operation).Offset
		parts[offset] = append(parts[offset], each)
	}
	var found [][]porcupine.Operation
	for _, part := range parts {
		found = append(found, part)
	}
	return found
}

// order is the second model: the length of a log only grows. An append takes its place behind every append that had
// ended before it began, so its offset is larger.
var order = porcupine.Model{
	Init: func() interface{} { return -1 },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		last, offset := state.(int), input.(Operation).Offset
		return offset > last, offset
	},
}

func operations(path string) ([]Operation, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var found []Operation
	return found, json.Unmarshal(text, &found)
}

// history turns operations into Porcupine's; an append without a response has its place where somebody read it, and
// may have happened at any time after it began.
func history(all []Operation, isWanted func(Operation) bool) []porcupine.Operation {
	var last int64
	for _, each := range all {
		last = max(last, each.Begin, each.End)
	}
	var found []porcupine.Operation
	for _, each := range all {
		if !isWanted(each) {
			continue
		}
		end := each.End
		if end == unknown {
			end = last + 1
		}
		found = append(found, porcupine.Operation{ClientId: each.Client, Input: each, Call: each.Begin, Return: end})
	}
	return found
}

func check(path string) porcupine.CheckResult {
	all, err := operations(path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
		return porcupine.Unknown
	}
	placed := func(each Operation) bool { return each.Offset >= 0 }
	result := porcupine.CheckOperationsTimeout(log, history(all, placed), timeout)
	if result != porcupine.Ok {
		return result
	}
	appends := func(each Operation) bool { return placed(each) && each.Kind == "append" }
	return porcupine.CheckOperationsTimeout(order, history(all, appends), timeout)
}

func main() {
	failed := 0
	for _, path := range os.Args[1:] {
		result := check(path)
		fmt.Printf("%s %s\n", path, map[porcupine.CheckResult]string{
			porcupine.Ok: "ok", porcupine.Illegal: "illegal", porcupine.Unknown: "unknown",
		}[result])
		if result != porcupine.Ok {
			failed = 1
		}
	}
	os.Exit(failed)
}
