#include "report/sections.hpp"

namespace trimtab::cli {

std::string_view report_style() {
  return R"css(
* { box-sizing: border-box }
html { color-scheme: light dark }
body { margin:0; background:var(--paper); color:var(--ink); line-height:1.5;
  font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif; font-size:15px }
main, header, footer { max-width:1040px; margin:0 auto; padding:0 28px }
header { padding-top:36px } footer { color:var(--soft); font-size:13px; padding-top:20px; padding-bottom:44px }
.brand { color:var(--accent); font-weight:650; letter-spacing:.02em; margin:0 } .brand span { color:var(--soft); font-weight:400 }
h1 { font-size:40px; line-height:1.15; letter-spacing:-.02em; margin:6px 0 4px; font-weight:650 }
h2 { font-size:19px; margin:0 0 14px; font-weight:620 } h3 { font-size:15px; margin:18px 0 8px; font-weight:600 }
.lead { color:var(--soft); margin:0 0 22px; font-size:16px }
section { padding:30px 0 4px; border-top:1px solid var(--rule); margin-top:26px }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(190px,1fr)); gap:12px; margin:0 }
.tiles div { background:var(--panel); border-radius:8px; padding:14px 16px }
.tiles dt { color:var(--soft); font-size:13px } .tiles dd { margin:2px 0 0; font-size:20px; font-weight:600; font-variant-numeric:tabular-nums }
.tiles dd small { display:block; color:var(--soft); font-size:13px; font-weight:400 }
.scroll { overflow-x:auto } .pair { display:grid; grid-template-columns:repeat(auto-fit,minmax(400px,1fr)); gap:8px 32px }
table { border-collapse:collapse; width:100%; font-size:14px; font-variant-numeric:tabular-nums }
th { text-align:left; color:var(--soft); font-weight:500; font-size:13px; white-space:nowrap }
th, td { padding:7px 12px 7px 0; border-bottom:1px solid var(--rule); vertical-align:top } .number { text-align:right }
td.number, td.tight { white-space:nowrap } td.plan { font-size:13px; min-width:220px }
td.why { min-width:150px; overflow-wrap:anywhere } td.spread { text-align:right; min-width:118px }
.good { color:var(--good) } .bad { color:var(--bad) } .soft { color:var(--soft) }
tr.won td { font-weight:600 } tr.won td.plan { font-weight:500 }
svg { width:100%; height:auto; display:block } figure { margin:0 0 18px } figure.half { max-width:480px }
pre { background:var(--panel); border-radius:8px; padding:14px 16px; overflow-x:auto; font-size:13px; white-space:pre-wrap } figcaption { color:var(--soft); font-size:13px; margin-top:4px }
code { font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; font-size:.92em; overflow-wrap:anywhere }
dl.facts { display:grid; grid-template-columns:minmax(150px,max-content) 1fr; gap:4px 22px; margin:0 0 16px; font-size:14px }
dl.facts dt { color:var(--soft) } dl.facts dd { margin:0; overflow-wrap:anywhere }
.keeps { fill:var(--forward) } .recomputes { fill:var(--recompute) }
summary { cursor:pointer; color:var(--soft) } details ul { font-size:14px; color:var(--soft) } details { margin:12px 0 }
.waiting { fill:var(--panel); stroke:var(--rule) }
@media print { section { break-inside:avoid } }
)css";
}

}  // namespace trimtab::cli
