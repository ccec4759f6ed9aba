// Order of search results: pages with the words in their own title first, the changelog last.
"use strict";

var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().split(/\s+/).filter((word) => word);
    const heading = title.toLowerCase();
    if (docname === "changelog") return score - 20;
    const isOwn = words.length && !anchor && words.every((word) => heading.includes(word));
    return isOwn ? score + 20 : score;
  },
  // What Sphinx has by default.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
