"""A reader of the report: headless Chromium, which opens everything and notes what is wrong."""

import base64
import re
import shutil
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SWITCHES = (
    "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync",
    "disable-background-networking", "disable-component-update", "window-size=1500,1000",
    "host-resolver-rules=MAP * ~NOTFOUND",  # what is not in the file is missing
)  # fmt: skip
LOADED = """return document.readyState == 'complete' && document.title
    && [...document.images].every(image => image.complete)"""
BROKEN_IMAGES = "return [...document.images].filter(image => !image.naturalWidth).length"
EMPTY_TABLES = """return [...document.querySelectorAll('table')].filter(
    t => ![...t.querySelectorAll('td')].some(cell => cell.textContent.trim())).length"""


@contextmanager
def chromium(folder):
    """A browser with an empty profile in a folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for switch in (*SWITCHES, f"user-data-dir={folder}"):
        options.add_argument(f"--{switch}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


class Reader:
    """Opens the entries of a report one by one, and keeps what was wrong in `problems`."""

    def __init__(self, driver, file):
        self.driver, self.problems = driver, []
        driver.get(file.as_uri())
        self.wait(lambda: self.find("nav li a"))

    def wait(self, condition):
        return WebDriverWait(self.driver, 60).until(lambda _: condition())

    def find(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def press(self, element):
        """Click on an element, wherever an animation has moved it."""
        self.driver.execute_script("arguments[0].click()", element)

    def follow(self, text, within="nav"):
        """Click on the link that has a text."""
        (link,) = (each for each in self.find(f"{within} a") if each.text.strip() == text)
        self.press(link)

    def home(self):
        self.press(self.find("nav ol a")[0])
        self.wait(lambda: self.find(".prose"))

    def categories(self):
        return self.driver.execute_script("return Object.keys(categories).sort()")

    def n_entries(self):
        return self.driver.execute_script("return Object.keys(results).length")

    def rows(self):
        return self.find("nav tbody tr")

    def open_category(self, category):
        self.home()
        self.follow(category)
        self.wait(self.rows)

    def check_page(self, name):
        """Note what is wrong with the document that is open; give its text."""
        self.wait(lambda: self.driver.execute_script(LOADED))
        if self.driver.execute_script(BROKEN_IMAGES):
            self.problems.append(f"{name}: missing image")
        if self.driver.execute_script(EMPTY_TABLES):
            self.problems.append(f"{name}: empty table")
        return self.driver.execute_script("return document.body.innerText")

    def check_first_page(self):
        """Open the first page; give its text."""
        self.home()
        if self.find(".system-message"):
            self.problems.append("first page: its source is wrong")
        if self.find(".prose")[0].location["y"] < 0:
            self.problems.append("first page: its top is out of reach")
        return self.check_page("first page")

    def check_statistics(self):
        """Open the page of run times, which are drawn by a script."""
        self.home()
        self.follow("Statistics")
        self.wait(lambda: self.find(".vega-embed canvas, .vega-embed svg"))

    def check_entries(self, category):
        """Open every entry of a category, then its description; give the texts of the entries by title."""
        self.open_category(category)
        titles = [row.find_element(By.CSS_SELECTOR, "td").text for row in self.rows()]
        return {title: self.check_entry(category, place, title) for place, title in enumerate(titles)}

    def check_entry(self, category, place, title):
        self.open_category(category)
        view, about = self.rows()[place].find_elements(By.CSS_SELECTOR, "a")
        self.press(view)
        (frame,) = self.wait(lambda: self.find("iframe"))
        kind, _, data = frame.get_attribute("src").partition(",")
        text = ""
        if kind.startswith("data:text/html"):
            self.driver.switch_to.frame(frame)
            text = self.check_page(title)
            if not self.find("table, img"):
                self.problems.append(f"{title}: shows nothing")
            self.driver.switch_to.default_content()
        elif not base64.b64decode(data).startswith(b"%PDF"):
            self.problems.append(f"{title}: neither a page nor a document")
        self.press(about)
        self.wait(lambda: not self.rows() or "SNAKEMAKE RULE" in self.find("nav")[0].text.upper())
        if not re.search(r"description\s+\S", self.find("nav")[0].text, re.IGNORECASE):
            self.problems.append(f"{title}: no description")
        return text

    def check_console(self):
        """Note the script errors so far."""
        errors = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        self.problems += [f"script error: {message}" for message in errors]
