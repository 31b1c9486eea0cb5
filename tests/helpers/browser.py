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
LOADED = "return document.readyState == 'complete' && [...document.images].every(i => i.complete)"
BROKEN_IMAGES = "return [...document.images].filter(i => !i.naturalWidth).length"
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
    """Opens a report's entries one by one."""

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

    def click(self, text):
        """Click on the item of the menu that has a text."""
        (item,) = (each for each in self.find("nav a") if each.text.strip() == text)
        self.press(item)

    def home(self):
        self.press(self.find("nav ol a")[0])
        self.wait(lambda: any(each.text == "Workflow" for each in self.find("nav li a")))

    def categories(self):
        return self.driver.execute_script("return Object.keys(categories).sort()")

    def rows(self):
        return self.find("nav tbody tr")

    def open_category(self, category):
        self.home()
        self.click(category)
        self.wait(self.rows)

    def check_page(self, name):
        """Note what is wrong with the document that is open."""
        self.wait(lambda: self.driver.execute_script(LOADED))
        if self.driver.execute_script(BROKEN_IMAGES):
            self.problems.append(f"{name}: missing image")
        if self.driver.execute_script(EMPTY_TABLES):
            self.problems.append(f"{name}: empty table")
        return self.driver.execute_script("return document.body.innerText")

    def check_first_page(self):
        """Open the first page; give its text."""
        self.home()
        text = self.check_page("first page")
        if self.find(".system-message"):
            self.problems.append("first page: its source is wrong")
        return text

    def check_entries(self, category):
        """Open every entry of a category and its description; give their texts by title."""
        self.open_category(category)
        texts = {}
        for place in range(len(self.rows())):
            title = self.rows()[place].find_element(By.CSS_SELECTOR, "td").text
            before = self.find("iframe")
            self.press(self.rows()[place].find_elements(By.CSS_SELECTOR, "a")[0])
            self.wait(lambda before=before: self.find("iframe") and self.find("iframe") != before)
            frame = self.find("iframe")[0]
            kind, _, data = frame.get_attribute("src").partition(",")
            if kind.startswith("data:text/html"):
                self.driver.switch_to.frame(frame)
                texts[title] = self.check_page(title)
                if not self.find("table, img"):
                    self.problems.append(f"{title}: shows nothing")
                self.driver.switch_to.default_content()
            elif not base64.b64decode(data).startswith(b"%PDF"):
                self.problems.append(f"{title}: neither a page nor a document")
            self.press(self.rows()[place].find_elements(By.CSS_SELECTOR, "a")[1])
            self.wait(lambda: not self.rows() or "DESCRIPTION" in self.find("nav")[0].text.upper())
            if not re.search(r"description\s+\S", self.find("nav")[0].text, re.IGNORECASE):
                self.problems.append(f"{title}: no description")
            self.open_category(category)
        return texts

    def script_errors(self):
        """Note what the browser's console holds."""
        errors = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        self.problems += [f"script error: {message}" for message in errors]
