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
