// Conditions on the list of rows: "age > 60, outcome = 0", or any text that a row contains.

const CONDITION = /^(.*?)\s*(<=|>=|!=|≤|≥|=|<|>)\s*(.*)$/;

const COMPARISONS = {
  "<": (one, other) => one < other,
  ">": (one, other) => one > other,
  "<=": (one, other) => one <= other,
  ">=": (one, other) => one >= other,
  "≤": (one, other) => one <= other,
  "≥": (one, other) => one >= other,
  "=": (one, other) => one === other,
  "!=": (one, other) => one !== other,
};

// Returns { test, error }: a function of a row's index, and what is wrong with the text, or "".
function parseFilter(text, columns) {
  const tests = [];
  for (const part of text.split(",").map((one) => one.trim()).filter(Boolean)) {
    const match = CONDITION.exec(part);
    if (!match) {
      const wanted = part.toLowerCase();
      tests.push((row) => columns.some(
        (column) => String(column.values[row]).toLowerCase().includes(wanted)));
      continue;
    }
    const [, name, sign, wanted] = match;
    const column = columns.find((one) => one.name.toLowerCase() === name.trim().toLowerCase());
    if (!column) {
      return { test: () => true, error: `There is no column "${name.trim()}".` };
    }
    const isText = column.values.some((value) => typeof value === "string" && Number.isNaN(Number(value)));
    const bound = isText ? wanted.trim() : Number(wanted);
    if (!isText && (wanted.trim() === "" || Number.isNaN(bound))) {
      return { test: () => true, error: `"${wanted}" is not a number.` };
    }
    tests.push((row) => {
      const value = column.values[row];
      if (value === null) return sign === "!=";
      return COMPARISONS[sign](isText ? String(value) : Number(value), bound);
    });
  }
  return { test: (row) => tests.every((one) => one(row)), error: "" };
}
