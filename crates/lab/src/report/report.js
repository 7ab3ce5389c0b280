document.getElementById('switch').onclick = function () {
  var root = document.documentElement;
  root.dataset.show = root.dataset.show === 'en' ? 'zh' : 'en';
  root.lang = root.dataset.show === 'en' ? 'en' : 'zh-CN';
};
document.querySelectorAll('time').forEach(function (at) {
  at.title = at.textContent;
  at.textContent = new Date(at.dateTime).toLocaleString('sv-SE', { timeZoneName: 'shortOffset' });
});
function unfold() {
  var target = location.hash && document.getElementById(location.hash.slice(1));
  for (var at = target; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
  if (target) target.scrollIntoView();
}
addEventListener('hashchange', unfold);
unfold();

// Values under the pointer. The charts are whole without this: see chart/draw.rs for the attributes.
var tip = document.body.appendChild(document.createElement('div'));
tip.className = 'tip';
tip.hidden = true;
function numbers(text) { return text.split(' ').map(function (word) { return isNaN(word) ? word : +word; }); }
function valueAt(axis, share) {
  var at = axis[0] + share * (axis[1] - axis[0]);
  return axis[2] === 'Log' ? Math.pow(10, at) : axis[2] === 'Nines' ? 100 * (1 - Math.pow(10, -at)) : at;
}
// Three digits, because a point is exact to a tenth of a pixel. A percentile has two digits of its distance to 100.
function shown(value, scale) {
  if (scale !== 'Nines') return value.toLocaleString('en', { maximumSignificantDigits: 3 });
  var digits = Math.max(0, 1 - Math.floor(Math.log10(Math.max(100 - value, 0.0001))));
  return value.toLocaleString('en', { maximumFractionDigits: digits });
}
function pointsOf(line) {
  line.points = line.points || (line.firstElementChild.getAttribute('d').match(/[-\d.]+ [-\d.]+/g) || []).map(numbers);
  return line.points;
}
function nameOf(chart, place) {
  var names = Array.from(chart.querySelectorAll('text.name')).filter(function (name) { return getComputedStyle(name).display !== 'none'; });
  return names[place] ? names[place].textContent : '';
}
function hideTip(chart) {
  tip.hidden = true;
  var cross = chart.querySelector('.cross');
  if (cross) cross.remove();
}
function showTip(chart, event) {
  var box = chart.getBoundingClientRect(), plot = numbers(chart.dataset.plot);
  var across = numbers(chart.dataset.across), up = numbers(chart.dataset.up);
  var x = (event.clientX - box.left) * chart.viewBox.baseVal.width / box.width, nearest = null, rows = [];
  var lines = Array.from(chart.querySelectorAll('.line'));
  lines.forEach(function (line) {
    pointsOf(line).forEach(function (point) {
      if (nearest === null || Math.abs(point[0] - x) < Math.abs(nearest - x)) nearest = point[0];
    });
  });
  if (nearest === null || x < plot[0] - 8 || x > plot[2] + 8) return hideTip(chart);
  lines.forEach(function (line) {
    var point = pointsOf(line).find(function (it) { return Math.abs(it[0] - nearest) < 0.3; });
    if (point) rows.push([line, valueAt(up, (plot[3] - point[1]) / (plot[3] - plot[1]))]);
  });
  var cross = chart.querySelector('.cross') || chart.appendChild(document.createElementNS(chart.namespaceURI, 'path'));
  cross.setAttribute('class', 'cross');
  cross.setAttribute('d', 'M' + nearest + ' ' + plot[1] + 'V' + plot[3]);
  var head = document.createElement('b');
  head.textContent = nameOf(chart, 1) + ' ' + shown(valueAt(across, (nearest - plot[0]) / (plot[2] - plot[0])), across[2]);
  tip.replaceChildren(head);
  rows.forEach(function (row) {
    var at = tip.appendChild(document.createElement('div'));
    at.className = row[0].getAttribute('class');
    at.textContent = row[0].dataset[document.documentElement.dataset.show] + ' ' + shown(row[1], up[2]) + ' ' + nameOf(chart, 0);
  });
  tip.hidden = false;
  var left = event.pageX + 14;
  tip.style.left = Math.min(left, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = event.pageY + 14 + 'px';
}
document.querySelectorAll('svg[data-plot]').forEach(function (chart) {
  chart.addEventListener('pointermove', function (event) { showTip(chart, event); });
  chart.addEventListener('pointerleave', function () { hideTip(chart); });
});
