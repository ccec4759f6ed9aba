// Names and focus for what the theme leaves to the eye: the arrows of the sidebar, and tables that scroll.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll(".bd-sidebar-primary details > summary")) {
    const link = summary.closest("li")?.querySelector("a");
    if (link) summary.setAttribute("aria-label", `Pages of ${link.textContent.trim()}`);
  }
  for (const box of document.querySelectorAll("div.run-output")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});
