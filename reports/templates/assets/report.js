// Sortable tables. Without this script every table still reads in its own order.
"use strict";
(function () {
  function key(row, column) {
    var cell = row.cells[column];
    var sort = cell.getAttribute("data-sort");
    if (sort !== null) { return sort === "" ? null : Number(sort); }
    return cell.textContent.trim().toLowerCase();
  }
  function compare(a, b, sign) {
    if (a === null || b === null) { return a === b ? 0 : a === null ? 1 : -1; }
    if (typeof a === "number" && typeof b === "number") { return sign * (a - b); }
    return sign * String(a).localeCompare(String(b));
  }
  function sortBy(table, header, column) {
    var falling = header.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("thead th").forEach(function (th) { th.removeAttribute("aria-sort"); });
    header.setAttribute("aria-sort", falling ? "descending" : "ascending");
    var body = table.tBodies[0];
    Array.from(body.rows)
      .map(function (row) { return [key(row, column), row]; })
      .sort(function (a, b) { return compare(a[0], b[0], falling ? -1 : 1); })
      .forEach(function (pair) { body.appendChild(pair[1]); });
  }
  document.querySelectorAll("table[data-sortable]").forEach(function (table) {
    table.querySelectorAll("thead th").forEach(function (header, column) {
      // The text stays outside the button: a heading repeated on a printed page shows only text.
      var button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-label", "Sort by " + header.textContent);
      header.appendChild(button);
      header.classList.add("sortable");
      header.addEventListener("click", function () { sortBy(table, header, column); });
    });
  });
})();
