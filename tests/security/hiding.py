"""Ways to hide a word in a mail, or to let a mail send words out: made from a seed, so that a
failure can be repeated.
"""
# ruff: noqa: E501

import random
import re
from collections.abc import Iterator

WORD = "MWMWM"
# Each was used by somebody, or hides text in at least one browser.
STYLES = """
display:none|visibility:hidden|visibility:collapse|opacity:0|opacity:.02|opacity:0%|font-size:0|font-size:0.5px|font-size:2px
font-size:1%|font-size:.05em|font:0/0 a|font:1px/1 Arial|font:0px/1px monospace;color:black|color:#fff|color:white|color:transparent
color:rgb(255,255,255)|color:rgb(254 254 254)|color:rgba(0,0,0,0)|color:rgba(0,0,0,.01)|color:hsl(0 0% 100%)|color:hsl(120,50%,99%)
color:#ffffff00|color:#fefefe|color:hwb(0 100% 0%)|color:lab(100 0 0)|color:oklch(1 0 0)|color:color(srgb 1 1 1)|color:snow
color:#fff !important;color:#000|COLOR:\\23 fff|color:#fff;background-color:#fff|color:#000;background-color:#000
background:#1b1c1e|background-color:#1b1c1e|background:linear-gradient(#1b1c1e,#1b1c1e)|color:#123;background:#123 none
color:yellow;background:#ff0|color:rgba(255,255,255,.9)|-webkit-text-fill-color:transparent|-webkit-text-fill-color:#fff
text-indent:-99em|text-indent:-9999px|text-indent:300%|text-indent:5000px|margin-left:-9999px|margin-top:-9999px|margin:-9999px 0 0 -9999px
margin-left:99999px|padding-left:99999px|padding:0 0 0 9999em|letter-spacing:-1em|letter-spacing:-99px|letter-spacing:999em|word-spacing:99999px
line-height:0|line-height:0;height:0;overflow:hidden|height:0;overflow:hidden|max-height:0;overflow:hidden|width:0;overflow:hidden;white-space:nowrap
max-width:0;overflow:hidden|height:1px;width:1px;overflow:hidden|position:absolute;left:-9999px|position:fixed;top:-5000px|position:relative;left:-8000px
position:absolute;clip:rect(0,0,0,0)|position:absolute;clip:rect(1px,1px,1px,1px)|clip-path:inset(100%)|clip-path:inset(50%)|clip-path:circle(0)
clip-path:polygon(0 0,0 0,0 0)|transform:scale(0)|transform:scale(.01)|transform:translateX(-9999px)|transform:rotateY(90deg)|filter:opacity(0)
filter:opacity(0%)|content-visibility:hidden|zoom:0|vertical-align:-9999px|float:left;margin-left:-5000px|direction:rtl;text-indent:9999px
color:#fff;text-shadow:none|color:inherit;font-size:0px|display:block;height:0px;overflow:clip|display:inline-block;width:0;overflow:hidden
font-family:Wingdings;font-size:1px|text-decoration:line-through 40px #fff|border-left:9999px solid #fff|border:0 solid;padding-top:99999px
white-space:nowrap;text-indent:9999px|mso-hide:all;display:none|display:none !important|/**/display/**/:/**/none|DISPLAY:NONE|display:none;display:none
"""
ALONE = re.compile(r"\bW\b")
TAGS = ("div", "p", "span", "b", "td", "a", "h6", "small", "li", "center", "blockquote", "code")
WHOLE = (
    '<font color="white">W</font>', '<font color="#fff">W</font>', '<font color=fff>W</font>', '<font size="-7"><small><small><small><small><small><small>W</small></small></small></small></small></small></font>',
    '<table bgcolor="#1b1c1e"><tr><td>W</td></tr></table>', '<table><tr><td bgcolor="white"><font color="white">W</font></td></tr></table>',
    '<table><colgroup><col style="background:#1b1c1e"></colgroup><tr><td>W</td></tr></table>', '<table><col bgcolor="#1b1c1e"><tr><td>W</td></tr></table>',
    '<div style="background:#000;color:#fff;height:1px">W</div>', '<div style="background:#000;color:#fff;width:1px"><pre>          W</pre></div>',
    '<div style="background:#000;color:#fff;width:60px"><table width="350"><tr><td align="right">W</td></tr></table></div>',
    '<table bgcolor="#000" style="color:#fff"><caption>W</caption><tr><td>x</td></tr></table>',
    '<div style="background:#fff;color:#000"><div style="color:#fff">W</div></div>', '<div hidden>W</div>', "<dialog>W</dialog>",
    "<details><summary>more</summary>W</details>", '<ruby>a<rp>W</rp></ruby>', "<template>W</template>", "<noscript>W</noscript>",
    '<style>.x{display:none}</style><p class="x">W</p>', "<style>b{color:#fff}</style><b>W</b>", '<style>#y{font-size:0}</style><p id="y">W</p>',
    '<style>p.z{position:absolute;left:-9999px}</style><p class="z">W</p>', '<p title="W">x</p>', '<x-a style="display:none">W</x-a>',
    '<form style="display:none">W</form>', '<section style="opacity:0">W</section>', '<body style="color:#fff">W</body>', '<mark style="color:yellow">W</mark>',
    '<a href="https://x.example" style="color:#fff">W</a>', '<table bgcolor="#00f"><tr><td><a href="https://x.example">W</a></td></tr></table>',
    '<p>line one<br>W<br><span style="padding:60px 200px;background:#fff">cover</span></p>', '<p style="line-height:2px">W<br><b style="background:#fff">cover it all here</b></p>',
    '<table><tr><td>a</td><td rowspan="2">W</td></tr><tr><td colspan="2" bgcolor="#fff">cover cover cover</td></tr></table>',
    '<div style="opacity:.3"><div style="opacity:.3"><div style="opacity:.3">W</div></div></div>', "<h6><div><h6><div><h6><div><h6>W</h6></div></h6></div></h6></div></h6>",
    '<table cellpadding="9999"><tr><td>W</td></tr></table>', '<table height="99999"><tr><td valign="bottom">W</td></tr></table>', "<blockquote>" * 30 + "W" + "</blockquote>" * 30,
    '<div dir="rtl"><pre>W' + "." * 200 + "</pre></div>", '<div dir="rtl"><table width="9000"><tr><td align="left">W</td></tr></table></div>', "<ul>" * 40 + "<li>W</li>" + "</ul>" * 40,
    '<div style="visibility:hidden"><b style="visibility:visible">W</b></div>', '<div style="color:#fff"><b style="color:#000">W</b></div>', '<div style="background:#000;color:#fff">W</div>',
    '<p style="font-size:8px">W</p>', '<p style="color:#ccc">W</p>', '<p style="color:#ddd">W</p>', '<div style="margin-left:-60px">W</div>',
)  # fmt: skip
PICTURES = (
    '<img src="AT">', '<img src="AT" width="1" height="1">', '<img src="AT" style="display:none">', '<div style="display:none"><img src="AT"></div>', "<img src='AT' alt=''>",
    '<img src=" AT ">', '<img src="&#104;&#116;&#116;&#112;&#115;://HOST/x">', '<img src="//HOST/x">', '<img src="https:\\\\HOST\\x">', '<img src="HTTPS://HOST/x">', '<img src="ht\ntps://HO\tST/x">',
    '<img src="https://u:p@HOST/x">', '<img src="http://HOST/x?a=b#c">', '<IMG SRC=AT>', '<a href="https://x.example"><img src="AT"></a>', '<table><tr><td><img src="AT"></td></tr></table>',
    '<img srcset="AT 1x" src="x">', '<picture><source srcset="AT"><img></picture>', '<div style="background:url(AT)">x</div>', '<div style="background-image:url(\'AT\')">x</div>', '<table background="AT"><tr><td>x</td></tr></table>',
    '<ul style="list-style-image:url(AT)"><li>x</ul>', '<p style="border-image:url(AT) 1">x</p>', '<p style="cursor:url(AT),auto">x</p>', '<p style="content:url(AT)">x</p>', "<style>p{background:url(AT)}</style><p>x</p>", "<style>@import 'AT';</style>x",
    '<link rel="stylesheet" href="AT">x', '<video poster="AT" src="AT"></video>', '<audio src="AT" autoplay></audio>', '<iframe src="AT"></iframe>', '<object data="AT"></object>', '<embed src="AT">', '<input type="image" src="AT">',
    '<svg><image href="AT"/></svg>', '<meta http-equiv="refresh" content="0;url=AT">', '<base href="https://HOST/"><img src="y">', '<img lowsrc="AT" dynsrc="AT">', '<p style="background:u\\72l(AT)">x</p>', '<p style="--x:url(AT);background:var(--x)">x</p>',
)  # fmt: skip


def hiding_forms(seed: int, count: int) -> Iterator[str]:
    """Yield HTML that contains WORD once, in most cases invisibly."""
    chance = random.Random(seed)
    yield from (f"<p>Hello</p>{ALONE.sub(WORD, whole)}" for whole in WHOLE)
    styles = [style for line in STYLES.split("\n") for style in line.split("|") if style.strip()]
    for number in range(count - len(WHOLE)):
        style = (
            styles[number % len(styles)]
            if number < 2 * len(styles)
            else ";".join(chance.sample(styles, 2))
        )
        tag = chance.choice(TAGS)
        inner = WORD if chance.random() < 0.6 else f"<i>{WORD}</i>"
        start = f'<{tag} href="https://x.example"' if tag == "a" else f"<{tag}"
        page = f"""{start} style="{style.replace('"', "'")}">{inner}</{tag}>"""
        page = (
            f"<table><tr>{page}</tr></table>"
            if tag == "td"
            else f"<ul>{page}</ul>"
            if tag == "li"
            else page
        )
        before, after = chance.choice(
            [
                ("<p>Hello</p>", "<p>Bye</p>"),
                ("Hello ", " Bye"),
                ("<div>Hello</div><br>", "<br>Bye"),
            ]
        )
        yield before + page + after


def carrying_forms() -> Iterator[tuple[str, str]]:
    """Yield (host, HTML) of mails that would make their reader's program call that host."""
    for number, form in enumerate(PICTURES):
        host = f"f{number}.canary.example"
        yield host, form.replace("AT", f"https://{host}/x").replace("HOST", host)
