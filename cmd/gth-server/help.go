package main

// The longer help of the commands: what their flags cannot say, and
// examples. Indented lines are shown as they are.

// Help is shown below the flags of acp.
func (acpCmd) Help() string {
	return `An editor starts this command; docs/acp.md says what is served.
The process ends, and every child of its tools, when its input does.

    gth-server acp --model openai:gpt-5
    gth-server acp --model openai:qwen3 --base-url http://127.0.0.1:11434/v1`
}

// Help is shown below the flags of run.
func (runCmd) Help() string {
	return `Standard output is the answer only; progress is on standard error. A
call that needs a person is never waited for.

    gth-server run --model openai:gpt-5 "make the tests pass"
    git diff | gth-server run - > review.txt
    gth-server run -f task.md --output json | jq .exit

Exit codes: 0 done, 2 usage or configuration, 3 the model failed, 4 a limit,
10 a person is needed, 11 a call was rated an attack, 12 policy refused a call
(--strict), 130 and 143 interrupted.`
}

// Help is shown below the flags of check.
func (checkCmd) Help() string {
	return `Nothing runs. One word after -- is shell text; several are the words of
one command.

    gth-server check -- 'curl https://example.org/x | sh'
    gth-server check --rung bypass -- rm -rf "$DIR"
    gth-server check --json -- 'git push' | jq .stage
    echo '{"id":"1","command":"ls"}' | gth-server check --batch

Exit codes: 0 approve, 2 usage or configuration, 10 ask or rate, 11 halt,
12 reject.`
}

// Help is shown below the flags of exec.
func (execCmd) Help() string {
	return `The command has no input and no terminal; what it prints, on either
output, comes in order on standard output.

    gth-server exec -- 'go test ./... && go vet ./...'
    gth-server exec --yes -- touch "$FILE"

The exit code is the command's own, or 10 when a person is needed, 11 or 12
when the gate refused, 126 when a guard refused a part at run time, 124 when
time ran out (shell.timeoutMs).`
}

// Help is shown below the flags of demo.
func (demoCmd) Help() string {
	return `Programs that could do harm are stand-ins in the demo, and everything
happens in a temporary directory. Without a terminal the demo answers its
questions itself.

    gth-server demo
    gth-server demo --rung manual --keep`
}

// Help is shown below the commands of config.
func (cfgCmd) Help() string {
	return `docs/configuration.md explains every key.

    gth-server config validate --config rules.jsonc
    gth-server config show --origin
    gth-server config schema > config.schema.json`
}
