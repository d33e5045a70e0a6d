// What a page of results shows: run in the page by `run`, as the body of a function.
const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left, top, right, bottom, width: right - left, height: bottom - top };
};

// The relative luminance of a colour (WCAG 2.1), of which the page has no transparent ones.
const luminance = (color) => {
    const parts = color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [red, green, blue] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
};

const chart = (svg) => {
    const frame = box(svg);
    const style = getComputedStyle(svg);
    const isOutside = (text) => {
        const place = box(text);
        return place.left < frame.left - 1 || place.right > frame.right + 1 || place.top < frame.top - 1
            || place.bottom > frame.bottom + 1;
    };
    const texts = [...svg.querySelectorAll("text")];
    const inks = texts.map((text) => getComputedStyle(text).fill);
    return {
        title: svg.getAttribute("aria-label"),
        frame,
        shapes: svg.querySelectorAll("path, line, rect, circle, polyline, polygon").length,
        outside: texts.filter(isOutside).map((text) => text.textContent),
        contrast: Math.min(...inks.map((ink) => contrast(ink, style.backgroundColor))),
    };
};

const paper = getComputedStyle(document.body).backgroundColor;
return {
    sections: document.querySelectorAll("main > section[id^=test-]").length,
    charts: [...document.querySelectorAll("figure svg.chart")].map(chart),
    scripts: document.querySelectorAll("script").length,
    deadLinks: [...document.querySelectorAll("a[href^='#']")].map((link) => link.getAttribute("href"))
        .filter((address) => !document.getElementById(address.slice(1))),
    width: document.documentElement.clientWidth,
    widthOfContent: document.documentElement.scrollWidth,
    luminance: luminance(paper),
    contrast: contrast(getComputedStyle(document.body).color, paper),
};
