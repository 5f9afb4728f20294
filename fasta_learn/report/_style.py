"""The look of a report."""

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--card:#f5f6f8;--ink:#1b1f24;--muted:#57606a;
--rule:#d5dae0;--blue:#0a5fb4;--pale:#4a8cc7;--orange:#b34700;--red:#b3261e}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--card:#1f242a;--ink:#e8eaed;
--muted:#a3abb5;--rule:#3a424b;--blue:#79b8ff;--pale:#4583bd;--orange:#ffab70;
--red:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
header,main,footer,nav{max-width:60rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
h1{font-size:1.6rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.2rem 0 .5rem;scroll-margin-top:1rem}
h3{font-size:1rem;margin:0;overflow-wrap:anywhere}
p{margin:.4rem 0 .8rem;max-width:44rem}
.muted,figcaption,footer{color:var(--muted);font-size:.9rem}
footer{padding:2rem 1rem}
a{color:var(--blue)}
:focus-visible{outline:3px solid var(--orange);outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.3rem .6rem;z-index:1}
nav ul,.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0}
nav ul{margin:.8rem 0;border-bottom:1px solid var(--rule);padding-bottom:.8rem}
.legend{margin:.4rem 0;font-size:.9rem}
.key{width:14px;height:14px;margin-right:.4rem;vertical-align:-2px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.7rem;
margin:1rem 0}
.tiles div{background:var(--card);border-radius:.5rem;padding:.6rem .9rem}
.tiles dt{color:var(--muted);font-size:.85rem}
.tiles dd{margin:0;font-size:1.25rem;font-weight:600;overflow-wrap:anywhere}
.tiles small{display:block;font-size:.8rem;font-weight:400;color:var(--muted)}
pre{background:var(--card);border:1px solid var(--rule);border-radius:.5rem;
padding:.9rem;margin:.4rem 0;white-space:pre-wrap;overflow-wrap:anywhere;
user-select:all;font:.95rem/1.5 ui-monospace,monospace}
figure{margin:.6rem 0 1rem}
figure svg:not(.key){display:block;width:100%;height:auto}
.narrow{max-width:30rem}.any{max-width:22rem}.square .wide{max-width:34rem}
figure svg.narrow{display:none}
@media (max-width:36rem){figure svg.wide{display:none}figure svg.narrow{display:block}}
svg text{fill:var(--muted);font:13px system-ui,sans-serif}
.grid{stroke:var(--rule);stroke-width:1;fill:none}
.line{stroke:var(--orange);stroke-width:2.5;fill:none}
.line.thin{stroke-width:1.5;stroke-dasharray:5 4}
.dot{fill:var(--pale)}.best{fill:var(--orange)}circle.bad,rect.bad{fill:var(--red)}
path.bad{stroke:var(--red);stroke-width:2}.bar{fill:var(--pale)}
circle.bar{fill:var(--pale)}circle.meankey{fill:var(--ink)}.mean{stroke:var(--ink);stroke-width:2.5}
.effects{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:1rem}
.effects>div{min-width:0}
.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:.5rem;margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem}
caption{text-align:left;padding:.5rem .7rem;color:var(--muted)}
th,td{text-align:left;padding:.35rem .7rem;border-top:1px solid var(--rule);
vertical-align:top}
thead th{border-top:0;background:var(--card);white-space:nowrap}
tbody th{font-weight:600}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td{overflow-wrap:break-word}
td.wide{min-width:16rem}
summary{cursor:pointer;color:var(--blue);padding:.3rem 0}
@media print{details>*{display:block}.skip,nav{display:none}}
"""
