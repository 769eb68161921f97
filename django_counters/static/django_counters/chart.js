// Draws the chart of one counter from the numbers that stand in its page.
"use strict";

(function () {
    const HEIGHT = 280;
    const place = document.getElementById("counters-chart");
    const source = document.getElementById("counters-chart-data");
    if (!place || !source) {
        return;
    }
    const chart = JSON.parse(source.textContent);
    const language = document.documentElement.lang || undefined;
    const plain = new Intl.NumberFormat(language);
    const signed = new Intl.NumberFormat(language, { signDisplay: "exceptZero" });
    const short = new Intl.NumberFormat(language, { notation: "compact" });
    let drawn = null;

    function colour(name, fallback) {
        const found = getComputedStyle(document.body).getPropertyValue(name).trim();
        return found || fallback;
    }

    function words(format) {
        return (_plot, number) => (number === null ? "–" : format.format(number));
    }

    function label(number) {
        return chart.labels[number] || "";
    }

    function axis(scale, side, format) {
        const text = colour("--body-quiet-color", "#666");
        const line = { stroke: colour("--hairline-color", "#e8e8e8"), width: 1 };
        const grid = side === 1 ? { show: false } : line;
        const values = (_plot, ticks) => ticks.map((tick) => (tick === null ? "" : format(tick)));
        return { scale, side, stroke: text, grid, ticks: line, values, size: side === 2 ? 40 : 70 };
    }

    function periods() {
        // Labels are of whole periods, and need room.
        const below = axis("x", 2, (tick) => (Number.isInteger(tick) ? label(tick) : ""));
        return { ...below, space: 150, incrs: [1, 2, 3, 4, 6, 8, 12, 24] };
    }

    function options() {
        const bars = colour("--body-quiet-color", "#666");
        const line = colour("--link-fg", "#417893");
        return {
            width: Math.max(place.clientWidth, 200),
            height: HEIGHT,
            scales: { x: { time: false, range: [-0.5, chart.labels.length - 0.5] } },
            axes: [
                periods(),
                axis("value", 3, (tick) => short.format(tick)),
                axis("change", 1, (tick) => short.format(tick)),
            ],
            cursor: { drag: { x: false, y: false } },
            series: [
                { label: chart.words.period, value: (_plot, number) => label(number) },
                {
                    label: chart.words.change,
                    scale: "change",
                    value: words(signed),
                    fill: bars,
                    stroke: bars,
                    paths: uPlot.paths.bars({ size: [0.6, 40] }),
                    points: { show: false },
                },
                {
                    label: chart.words.value,
                    scale: "value",
                    value: words(plain),
                    stroke: line,
                    width: 2,
                    points: { show: chart.labels.length < 3 },
                },
            ],
        };
    }

    function draw() {
        if (drawn) {
            drawn.destroy();
        }
        const numbers = [chart.labels.map((_label, number) => number), chart.changes, chart.values];
        drawn = new uPlot(options(), numbers, place);
    }

    draw();
    new ResizeObserver(() => {
        const width = Math.max(place.clientWidth, 200);
        if (width !== drawn.width) {
            drawn.setSize({ width, height: HEIGHT });
        }
    }).observe(place);
    // The admin has a switch between light and dark.
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
