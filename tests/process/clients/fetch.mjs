// Sends a large body with fetch, and prints the statuses: one for each try, or what went wrong.
const [url, key, address, size, tries] = process.argv.slice(2);
const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", "x-forwarded-for": address };
const body = "x".repeat(Number(size));
for (let left = Number(tries); left > 0; left--) {
  try {
    const response = await fetch(url, { method: "POST", headers, body });
    await response.text();
    console.log(response.status);
  } catch (error) {
    console.log(error.cause?.code ?? String(error));
  }
}
