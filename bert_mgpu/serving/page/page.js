"use strict";

// Words of the page, by the browser's language.
const TEXTS = {
  en: {
    try: "Try the model",
    text: "Text",
    second: "Second text",
    question: "Question",
    context: "Context",
    send: "Predict",
    keys: "Ctrl+Enter",
    report: "The latest report",
    working: "…",
    unreachable: "The server does not answer.",
    read: (n, of) => `It read ${n} of ${of} tokens.`,
    cut: "Left out: ",
    unknown: "Not in the vocabulary, read as [UNK]: ",
    empty: "Type a text first.",
  },
  zh: {
    try: "试用模型",
    text: "文本",
    second: "第二条文本",
    question: "问题",
    context: "文章",
    send: "预测",
    keys: "Ctrl+Enter",
    report: "最新报告",
    working: "…",
    unreachable: "服务器没有应答。",
    read: (n, of) => `读了 ${of} 个词元中的 ${n} 个。`,
    cut: "没有读到：",
    unknown: "词表外的词（按 [UNK] 处理）：",
    empty: "请先输入文本。",
  },
};
const words = navigator.language.startsWith("zh") ? TEXTS.zh : TEXTS.en;
const find = (id) => document.getElementById(id);

function add(parent, tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// A text with marked parts. Their places count characters, not UTF-16 units.
function addMarked(parent, text, spans) {
  const characters = Array.from(text);
  const place = add(parent, "p", "marked");
  let end = 0;
  for (const [start, stop, type] of spans) {
    place.append(characters.slice(end, start).join(""));
    const mark = add(place, "mark", "", characters.slice(start, stop).join(""));
    if (type) add(mark, "small", "", type);
    end = stop;
  }
  place.append(characters.slice(end).join(""));
}

// What became of a text: parts are deleted, and written in their place.
function addEdited(parent, text, edits) {
  const characters = Array.from(text);
  const place = add(parent, "p", "marked");
  let done = 0;
  for (const [start, end, old, written] of edits) {
    place.append(characters.slice(done, start).join(""));
    if (old) add(place, "del", "", old);
    if (written) add(place, "ins", "", written);
    done = end;
  }
  place.append(characters.slice(done).join(""));
}

function show(answer, row) {
  const place = find("answer");
  place.replaceChildren();
  if (answer.error) {
    add(place, "p", "error", answer.error);
    return;
  }
  const marks = answer.spans && answer.spans.length;
  // The entities of a text say all; an answer is read more easily by itself.
  if (!marks || inputs.length > 1) add(place, "p", "label", answer.text);
  if (marks) addMarked(place, row[inputs.at(-1)], answer.spans);
  if (answer.edits && answer.edits.length) addEdited(place, row.text_a, answer.edits);
  for (const text of answer.others || []) add(place, "p", "other", text);
  const bars = add(place, "div", "bars");
  for (const [name, share] of answer.bars) {
    add(bars, "span", "", name);
    const bar = add(bars, "progress");
    bar.max = 1;
    bar.value = share;
    bar.setAttribute("aria-label", name);
    add(bars, "span", "share", `${(100 * share).toFixed(1)} %`);
  }
  if (answer.tokens < answer.of) {
    const note = add(place, "p", "note", words.read(answer.tokens, answer.of) + " ");
    add(note, "span", "", words.cut + shortened(answer.cut));
  }
  if (answer.unknown.length) {
    add(place, "p", "note", words.unknown + answer.unknown.join("  "));
  }
}

const LONGEST = 200; // characters of what was left out

function shortened(text) {
  if (text.length <= LONGEST) return text;
  return `${text.slice(0, LONGEST / 2)} … ${text.slice(-LONGEST / 2)}`;
}

let inputs = ["text_a"];

async function send(event) {
  event.preventDefault();
  const button = find("send");
  if (button.disabled) return;
  // A second text may be empty; the server says where it may not.
  if (!find("text_a").value.trim()) {
    show({ error: words.empty });
    find("text_a").focus();
    return;
  }
  button.disabled = true;
  find("answer").textContent = words.working;
  const row = Object.fromEntries(inputs.map((name) => [name, find(name).value]));
  try {
    const response = await fetch("/explain", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(row),
    });
    show(await response.json(), row);
  } catch {
    show({ error: words.unreachable });
  }
  button.disabled = false;
}

async function start() {
  for (const element of document.querySelectorAll("[data-text]")) {
    element.textContent = words[element.dataset.text];
  }
  document.documentElement.lang = words === TEXTS.zh ? "zh" : "en";
  find("form").addEventListener("submit", send);
  find("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
  });
  const page = await (await fetch("/page.json")).json();
  inputs = page.inputs;
  inputs.forEach((name, index) => {
    const title = words[page.titles[index]];
    document.querySelector(`label[for=${name}]`).textContent = title;
  });
  find("name").textContent = page.name;
  document.title = `${page.name} · bert_mgpu`;
  find("second").hidden = inputs.length < 2;
  if (page.report) {
    find("latest").hidden = false;
    find("frame").src = "/report";
    document.querySelector("main").classList.add("two");
  }
}

start();
