// Starts Swagger UI on the document of this server. Nothing is asked of any other server.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  // Open the form of an operation at once, and say how long its answer took.
  tryItOutEnabled: true,
  displayRequestDuration: true,
  // Show x-deprecated-sunset and x-stability.
  showExtensions: true,
  // A key that was entered is forgotten with the page.
  persistAuthorization: false,
  // No badge of an online validator.
  validatorUrl: null,
});
