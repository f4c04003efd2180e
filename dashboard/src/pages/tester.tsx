import { useState } from "preact/hooks";
import { QuireError, ask, type Schemas } from "../api.js";
import { href, place, setParams, withParams } from "../router.js";
import { Filter, Problem } from "../ui/parts.js";

/** Whether a condition holds now: the dry run of an append that has nothing but the condition. */
export function ConditionTester({ store, type, tags }: { store: string; type: string; tags: string[] }) {
  const after = place.value.params.get("after") ?? "";
  const [verdict, setVerdict] = useState<{ of: string; error?: Error }>();
  const item = { ...(type === "" ? {} : { types: [type] }), ...(tags.length === 0 ? {} : { tags }) };
  const condition: Schemas["ConditionRequest"] = {
    fail_if_events_match: { items: [item] },
    ...(/^\d+$/.test(after) ? { after: Number(after) } : {}),
  };
  const text = JSON.stringify(condition);
  const test = async (): Promise<void> => {
    try {
      await ask((quire) => quire.send("POST", "/v1/commit?dry_run=true", { parts: [{ append: { store, conditions: [condition] } }] }));
      setVerdict({ of: text });
    } catch (error) {
      setVerdict({ of: text, error: error as Error });
    }
  };
  const current = verdict?.of === text ? verdict : undefined;
  const isEmpty = type === "" && tags.length === 0;
  return (
    <details class="tester">
      <summary>Test a condition</summary>
      <form onSubmit={(event) => { event.preventDefault(); void test(); }}>
        <p>Would an append pass now, if it fails when events match the type and the tags above?</p>
        <pre class="value" tabIndex={0}>{text}</pre>
        <div class="filters">
          <Filter label="Ignore events up to" value={after} placeholder="position that the decision read" onChange={(after) => setParams({ after })} />
          <button type="submit" class="solid" disabled={isEmpty}>Test</button>
        </div>
        {isEmpty && <p class="faint">Give a type or a tag first.</p>}
      </form>
      <div aria-live="polite">{current !== undefined && <Verdict store={store} error={current.error} />}</div>
    </details>
  );
}

function Verdict({ store, error }: { store: string; error: Error | undefined }) {
  if (error === undefined) return <p class="notice" role="status">The condition holds: the append would pass.</p>;
  const position = error instanceof QuireError && error.code === "condition_failed" ? error.problem["position"] : undefined;
  if (typeof position !== "number") return <Problem error={error} />;
  return (
    <div class="problem" role="alert">
      <p>The condition fails: <a href={withParams(href("stores", store), { at: position })}>event {position}</a> matches. The append would be refused.</p>
    </div>
  );
}
