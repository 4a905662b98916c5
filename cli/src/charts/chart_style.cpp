#include "charts/gantt.hpp"

namespace trimtab::cli {

// The colours are told apart with the usual colour vision deficiencies (after Okabe and Ito), in both schemes.
std::string_view chart_style() {
  return R"css(
:root { --ink:#1b2430; --soft:#5b6775; --rule:#d9dee4; --paper:#ffffff; --panel:#f5f7f9; --accent:#00658f;
  --forward:#0072b2; --backward:#d55e00; --recompute:#e6a000; --transfer:#7a8794; --sync:#8a5fb0; --optimizer:#009e73;
  --good:#00714f; --bad:#b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink:#e6ebf0; --soft:#9dabb9; --rule:#323c47; --paper:#12171d; --panel:#1a2129; --accent:#6cc4ec;
    --forward:#4aa8e0; --backward:#f08a45; --recompute:#f0c050; --transfer:#93a1af; --sync:#b995dc; --optimizer:#3fc79d;
    --good:#55d3a6; --bad:#ff8a80; } }
svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.label { fill:var(--ink); font-size:12px } .small { fill:var(--soft); font-size:11px }
.axis { stroke:var(--soft); stroke-width:1 } .grid { stroke:var(--rule); stroke-width:1 }
.lane { fill:var(--panel) } .paper { fill:var(--paper) } .inside { fill:var(--paper); font-size:10px }
.forward { fill:var(--forward) } .backward { fill:var(--backward) } .recompute { fill:var(--recompute) }
.transfer { fill:var(--transfer) } .gradient_sync { fill:var(--sync) } .optimizer { fill:var(--optimizer) }
.event { stroke:var(--paper); stroke-width:.5 }
.critical { fill:none; stroke:var(--ink); stroke-width:1.8 } .critical-hop { stroke:var(--ink); stroke-width:1.8 }
.master { font-weight:bold; fill:var(--ink) }
.mark-before { fill:none; stroke:var(--soft); stroke-width:1.5 } .mark-after { fill:var(--accent) }
.series { fill:none; stroke:var(--accent); stroke-width:2 } .series-other { fill:none; stroke:var(--backward); stroke-width:2; stroke-dasharray:3 3 }
.ideal { stroke:var(--soft); stroke-dasharray:4 4 }
.interval { stroke:var(--soft); stroke-width:1.5 } .point { fill:var(--accent) } .point-lost { fill:var(--soft) }
)css";
}

}  // namespace trimtab::cli
