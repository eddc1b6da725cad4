// Formats numbers, amounts and times.

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function number(value) {
  return value.toLocaleString("en-US");
}

// At most three digits that count: 0.123, 1.23, 12.3, 123, 1,234.
function significant(value) {
  const digits = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 3) });
}

function percent(part, whole) {
  return whole > 0 ? `${significant((100 * part) / whole).replace(/\..*/, "")} %` : "–";
}

function amount(resource, value) {
  if (resource === "cpu") return significant(value / 1000);
  if (!inBytes(resource)) return number(value);
  let power = 0;
  while (value >= 1024 && power < BYTES.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${significant(value)} ${BYTES[power]}`;
}

function inBytes(resource) {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

// Nanoseconds, as the engine measures.
function duration(nanoseconds) {
  if (nanoseconds < 1e3) return `${nanoseconds} ns`;
  if (nanoseconds < 1e6) return `${significant(nanoseconds / 1e3)} µs`;
  if (nanoseconds < 1e9) return `${significant(nanoseconds / 1e6)} ms`;
  return `${significant(nanoseconds / 1e9)} s`;
}

// Seconds, as pods wait: 0.4s, 12s, 3m20s, 5h10m, 3d4h.
function span(seconds) {
  if (seconds < 0) return "0s";
  if (seconds < 10) return `${Math.round(seconds * 10) / 10}s`;
  const whole = Math.round(seconds);
  const parts = [
    [86400, "d"],
    [3600, "h"],
    [60, "m"],
    [1, "s"],
  ];
  const first = parts.findIndex(([length]) => whole >= length);
  const [length, unit] = parts[first];
  const rest = parts[first + 1];
  const more = rest === undefined ? 0 : Math.floor((whole % length) / rest[0]);
  return `${Math.floor(whole / length)}${unit}${more ? more + rest[1] : ""}`;
}

// A moment: by the clock on a live page, as +h:mm:ss since the start where time is virtual.
function moment(seconds) {
  if (source.start === null) return new Date(seconds * 1000).toLocaleTimeString("en-GB");
  const tenths = Math.round(Math.max(0, seconds - source.start) * 10);
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(tenths / 36000);
  const minutes = Math.floor((tenths % 36000) / 600);
  const rest = two(Math.floor((tenths % 600) / 10)) + (tenths % 10 ? `.${tenths % 10}` : "");
  return hours ? `+${hours}:${two(minutes)}:${rest}` : `+${minutes}:${rest}`;
}

function plural(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

// The first sentence about why: "0/6 nodes are available: 4 Insufficient cpu, 1 node(s) ..." without what follows.
function firstSentence(message) {
  return message.replace(/^0\/(\d+) nodes are available: /, "").replace(/\. .*$/s, "").replace(/\.$/, "");
}

const QUEUES = {
  active: "Active",
  backoff: "Backing off",
  unschedulable: "Unschedulable",
  gated: "Gated",
  binding: "Binding",
};

function queueName(queue) {
  return QUEUES[queue] ?? queue.charAt(0).toUpperCase() + queue.slice(1);
}

const RESULTS = { scheduled: "Scheduled", unschedulable: "Unschedulable", error: "Error" };

// Actions on objects, in the words of `kframework explain`.
const ACTIONS = {
  add: "added",
  delete: "deleted",
  update: "changed",
  update_node_allocatable: "allocatable changed",
  update_node_label: "labels changed",
  update_node_taint: "taints changed",
  update_node_condition: "conditions changed",
  update_node_annotation: "annotations changed",
  update_node_declared_feature: "declared features changed",
  update_pod_label: "labels changed",
  update_pod_scale_down: "scaled down",
  update_pod_toleration: "tolerations added",
  update_pod_scheduling_gates_eliminated: "gates removed",
  update_pod_generated_resource_claim: "resource claim created",
};
