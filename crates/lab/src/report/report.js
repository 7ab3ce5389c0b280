document.getElementById('switch').onclick = function () {
  var root = document.documentElement;
  root.dataset.show = root.dataset.show === 'en' ? 'zh' : 'en';
  root.lang = root.dataset.show === 'en' ? 'en' : 'zh-CN';
};
function unfold() {
  var target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === 'DETAILS') target.open = true;
}
addEventListener('hashchange', unfold);
unfold();
