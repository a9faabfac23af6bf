package config

import "strings"

// mergeLayers puts a layer above another one. Objects merge key by key and
// everything else is replaced, with two exceptions: prohibitions add up, lower
// layer first, and a rung that stands for an object does not wipe the lists
// of the other layer.
func mergeLayers(lower, upper *tree, at string) *tree {
	switch {
	case lower == nil:
		return upper
	case upper == nil:
		return lower
	}
	if isGate(at) && (lower.keys != nil || upper.keys != nil) {
		lower, upper = expandRung(lower), expandRung(upper)
	}
	switch {
	case lower.keys != nil && upper.keys != nil:
		t := &tree{source: upper.source, keys: map[string]*tree{}}
		for k, sub := range lower.keys {
			t.keys[k] = mergeLayers(sub, upper.keys[k], join(at, k))
		}
		for k, sub := range upper.keys {
			if lower.keys[k] == nil {
				t.keys[k] = sub
			}
		}
		return t
	case lower.list != nil && upper.list != nil && isProhibition(at):
		return concat(lower, upper)
	}
	return upper
}

// isGate reports whether at is approvals itself, of any surface.
func isGate(at string) bool {
	return at == "approvals" || strings.HasPrefix(at, "commands.") && strings.HasSuffix(at, ".approvals")
}

func isProhibition(at string) bool {
	gate, list, ok := cutLast(at)
	return ok && isGate(gate) && (list == "deny" || list == "escalate")
}

func cutLast(at string) (before, after string, ok bool) {
	i := strings.LastIndexByte(at, '.')
	if i < 0 {
		return "", at, false
	}
	return at[:i], at[i+1:], true
}

// expandRung turns a rung into the object that it stands for.
func expandRung(t *tree) *tree {
	if t == nil || t.keys != nil {
		return t
	}
	return &tree{source: t.source, keys: map[string]*tree{"mode": t}}
}

func concat(a, b *tree) *tree {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &tree{source: b.source, list: append(append([]*tree{}, a.list...), b.list...)}
}

// forSurface applies what commands.NAME states for one surface to the whole
// configuration t and returns the result.
func forSurface(t *tree, name string) *tree {
	out := &tree{source: t.source, keys: map[string]*tree{}}
	for k, sub := range t.keys {
		out.keys[k] = sub
	}
	command := t.get("commands", name)
	for k, sub := range map[string]*tree{
		"approvals":    mergeGate(expandRung(t.get("approvals")), expandRung(command.get("approvals"))),
		"model":        command.get("model"),
		"builtInTools": command.get("builtInTools"),
	} {
		if sub != nil {
			out.keys[k] = sub
		}
	}
	return out
}

// mergeGate merges the gate of one surface over that of all: single values
// and permissions are replaced when stated, also by an empty list;
// prohibitions add up, so that a surface can never remove one.
func mergeGate(all, one *tree) *tree {
	switch {
	case one == nil:
		return all
	case all == nil:
		return one
	}
	out := &tree{source: one.source, keys: map[string]*tree{}}
	for k, sub := range all.keys {
		out.keys[k] = sub
	}
	for k, sub := range one.keys {
		if k == "deny" || k == "escalate" {
			sub = concat(all.keys[k], sub)
		}
		out.keys[k] = sub
	}
	return out
}
